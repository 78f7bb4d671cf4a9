"""Random stream programs: few bytes, many streams, every way to order them, and no care taken that they are ordered.

`program(seed, rules)` is one of them, as a document of `acl_py.programs.format`. A program uses only what its rules
have: ACL's three classes of events, notifies, values and contexts; CUDA's legacy and per-thread streams and host
functions. Some programs under ACL's rules have callbacks. A few programs make a call that fails or wait without end; a
run shows which.
"""

from random import Random
from typing import Any

RULES = ("cuda", "cuda_per_thread", "acl")
SIZE = 64  # bytes of each buffer
PARTS = ((0, 64), (0, 16), (16, 48), (8, 24), (32, 64), (4, 8))
OPERATIONS = 12
AWAITABLE = ("launch", "inc", "memcpy_async", "memcpy2d_async", "memset_async", "host_func")  # calls with a completion

# Calls that may wait for a stream.
_WAITS = (
    "sync_stream", "sync_event", "sync_device", "sync_op", "query_stream", "query_event", "memcpy", "memset", "free",
    "free_async", "destroy_stream",
)  # fmt: skip

Document = dict[str, Any]


def program(seed: int, rules: str) -> Document:
    """The random program number *seed* under *rules*."""
    author = _Author(Random(f"{seed} {rules}"), rules, calls_back=rules == "acl" and calls_back(seed))
    return author.write(f"random-{seed}-{rules}")


def calls_back(seed: int) -> bool:
    """Whether the program number *seed* under ACL's rules may have callbacks."""
    return Random(f"{seed} callbacks").random() < 0.3


class _Author:
    """Writes one program, and remembers what it may name."""

    def __init__(self, rng: Random, rules: str, *, calls_back: bool) -> None:
        self.rng, self.acl = rng, rules == "acl"
        self.devices = rng.choice((1, 1, 1, 2))
        self.tasks: tuple[str | None, ...] = rng.choice(((None,), (None,), (None, "b")))
        self.steps: list[Document] = []
        self.task: str | None = None  # that makes the next step
        self.here: dict[str | None, str] = dict.fromkeys(self.tasks, "primary0")  # the current context of each task
        self.left = rng.randint(4, OPERATIONS)
        self.care = rng.choice((0, 0.5, 0.9, 1))  # how often an operation is put behind the one before
        self.last: str | None = None  # the stream of the last operation
        self.made = 0
        self.homes: dict[str, str] = {}  # the context of each stream
        self.streams: dict[str, Document] = {}
        self.buffers: dict[str, Document] = {}
        self.freed: set[str] = set()
        self.pools: dict[str, tuple[str | None, int]] = {}  # memory of pools: its task and its device
        self.events: dict[str, str] = {}  # their classes
        self.recorded: set[str] = set()
        self.notifies: list[str] = []
        self.written: list[int] = []  # values of the word
        self.calls_back = calls_back
        self.subscribed: list[str] = []  # streams
        self.due = 0  # callbacks that are to be called

    def write(self, name: str) -> Document:
        """Write the program."""
        self._declare()
        if self.acl:
            self._create()
        first = len(self.steps)
        makers, weights = zip(*self._makers(), strict=True)
        while self.left > 0:
            if len(self.tasks) > 1 and self.rng.random() < 0.3:
                self.task = self.rng.choice(self.tasks)
            self.rng.choices(makers, weights)[0]()
        self.task = None
        self._call_back()
        if len(self.tasks) > 1:
            self._hold_back(first)
        events = {event: {} for event, kind in self.events.items() if kind == "declared"}
        return {
            "id": name, "buffers": self.buffers, "streams": self.streams, "events": events, "steps": self.steps,
        }  # fmt: skip

    # --- what there is before the first operation

    def _declare(self) -> None:
        rng = self.rng
        for number in range(rng.randint(2, 5)):
            name, device = f"s{number}", rng.randrange(self.devices)
            flags = rng.choice(("blocking", "blocking", "nonblocking"))
            self.streams[name] = {"flags": flags, "device": device}
            self.homes[name] = f"primary{device}"
        for number in range(max(rng.randint(1, 2), self.devices)):
            self._buffer(f"d{number}", "device", number % self.devices)
        for number in range(rng.randint(1, 2)):
            self._buffer(f"p{number}", "pinned", 0)
        if rng.random() < 0.2:
            self._buffer("g", "pageable", 0)
        if not self.acl:
            self.events = dict.fromkeys(("e0", "e1", "e2"), "declared")

    def _buffer(self, name: str, space: str, device: int) -> None:
        self.buffers[name] = {"space": space, "bytes": SIZE, "device": device}

    def _create(self) -> None:
        """Make events of ACL's classes, a notify, a context with a stream of its own, a word that is 0."""
        for number in range(3):
            kind = self.rng.choice(("default", "flag", "flag", "snapshot"))
            self._add("create_event", event=f"e{number}", kind=kind)
            self.events[f"e{number}"] = kind
        if self.rng.random() < 0.4:
            self._add("create_notify", notify="n")
            self.notifies.append("n")
        if self.rng.random() < 0.3:
            self._add("create_context", context="c")
            self._add("create_stream", name="sc")
            self._add("set_context", context="primary")
            self.homes["sc"] = "c"
        if self.rng.random() < 0.3:
            self._buffer("w", "device", 0)
            self._add("memset", dst="w", bytes=SIZE)
            self.written.append(0)

    def _makers(self) -> list[tuple[Any, float]]:
        makers: list[tuple[Any, float]] = [
            (self._launch, 6), (self._copy, 5), (self._pitched, 2), (self._fill, 1.5), (self._inc, 1),
            (self._record, 5), (self._wait, 5), (self._sync, 2.5), (self._query, 1.5), (self._host, 3),
            (self._allocate, 0.8), (self._free_to_pool, 0.8), (self._sync_copy, 0.8), (self._free, 0.15),
            (self._new_stream, 0.2), (self._end_stream, 0.15),
        ]  # fmt: skip
        if not self.acl:
            return [*makers, (self._host_func, 1), (self._remake_event, 0.3)]
        makers.append((self._reset, 0.7))
        makers.append((self._notify, 2 if self.notifies else 0))
        makers.append((self._word, 2 if self.written else 0))
        return [*makers, (self._callback, 3 if self.calls_back else 0)]

    def _hold_back(self, first: int) -> None:
        """Let each task begin behind the preparations, and some of its steps behind steps of the other one."""
        for task in self.tasks:
            behind_first = task is None or not first
            for index in range(first, len(self.steps)):
                if self.steps[index].get("task") != task:
                    continue
                if not behind_first:
                    self.steps[index]["after"] = first - 1
                    behind_first = True
                elif self.rng.random() < 0.2:
                    others = [i for i in range(first, index) if self.steps[i].get("task") != task]
                    if others:
                        self.steps[index]["after"] = others[-1]

    # --- choices

    def _add(self, op: str, **fields: Any) -> None:
        if self.task is None and (op in _WAITS or "g" in (fields.get("dst"), fields.get("src"))):
            self._call_back()  # or the call might wait for a stream that waits for a callback
        step = {"op": op, **fields}
        if self.task is not None:
            step["task"] = self.task
        self.steps.append(step)

    def _op(self, op: str, **fields: Any) -> None:
        stream = fields.get("stream")
        if self.last not in (None, stream) and self.rng.random() < self.care:
            self._hand_over(stream)
        self.last = stream or self.last
        self.left -= 1
        self.made += 1
        self._add(op, id=f"op{self.made}", **fields)

    @property
    def _device(self) -> int:
        """The device of the current context."""
        return _device_of(self.here[self.task])

    def _go_to(self, home: str) -> None:
        """Make the context *home* the current one of the task."""
        if self.here[self.task] == home:
            return
        self.here[self.task] = home
        if home.startswith("primary"):
            self._add("set_device", device=_device_of(home))
        else:
            self._add("set_context", context=home)

    def _stream(self, device: int | None = None) -> str:
        """Choose a stream, on *device* if it is given, and make its context the current one."""
        rng = self.rng
        of = [name for name, home in self.homes.items() if device is None or _device_of(home) == device]
        if not of or rng.random() < (0.1 if self.acl else 0.25):
            self._go_to(f"primary{rng.randrange(self.devices) if device is None else device}")
            return "legacy" if self.acl or rng.random() < 0.6 else "per_thread"
        name = rng.choice(of)
        self._go_to(self.homes[name])
        return name

    def _memory(self, space: str, device: int | None = None) -> str | None:
        """Choose memory of *space*, on *device* if it is given."""
        names = [
            name
            for name, buffer in self.buffers.items()
            if buffer["space"] == space and device in (None, buffer["device"]) and name not in {"w", *self.freed}
        ]
        if space == "device":
            own = [name for name, (task, at) in self.pools.items() if task == self.task and device in (None, at)]
            names += own * 2
        return self.rng.choice(names) if names else None

    def _extents(self) -> list[list[Any]]:
        names = [self._memory("device", self._device)]
        if self.rng.random() < 0.15 and self._device == 0:
            names.append(self._memory("pinned"))
        return [[name, *self.rng.choice(PARTS)] for name in names if name is not None]

    def _ends(self) -> tuple[str, str] | None:
        """Choose a destination and a source. Under ACL a device does not reach the memory of another one here."""
        rng = self.rng
        spaces = rng.choice((("device", "pinned"), ("pinned", "device"), ("device", "device")))
        on = self._device if self.acl or "pinned" in spaces else None
        if "g" in self.buffers and rng.random() < 0.1:
            spaces = rng.choice((("device", "pageable"), ("pageable", "device")))
        dst, src = (self._memory(space, on if space == "device" else None) for space in spaces)
        return None if dst is None or src is None or dst == src else (dst, src)

    # --- work

    def _launch(self) -> None:
        stream, rng = self._stream(), self.rng
        reads = self._extents() if rng.random() < 0.7 else []
        writes = self._extents() if rng.random() < 0.6 or not reads else []
        self._op("launch", stream=stream, us=rng.choice((1, 5, 20, 80)), name="k", reads=reads, writes=writes)

    def _copy(self) -> None:
        stream, ends = self._stream(), self._ends()
        if ends is None:
            return
        start, stop = self.rng.choice(PARTS)
        src_off = self.rng.choice((0, start))
        self._op(
            "memcpy_async", stream=stream, dst=ends[0], src=ends[1], bytes=stop - start, dst_off=start, src_off=src_off
        )

    def _pitched(self) -> None:
        """Rows of 4 bytes at a distance of 8 or 16: columns that lie between those of another copy."""
        stream, ends, rng = self._stream(), self._ends(), self.rng
        if ends is not None:
            self._op(
                "memcpy2d_async", stream=stream, dst=ends[0], src=ends[1], dpitch=rng.choice((8, 16)), spitch=8,
                width=4, height=rng.randint(2, 4), dst_off=rng.choice((0, 4)), src_off=rng.choice((0, 4)),
            )  # fmt: skip

    def _fill(self) -> None:
        stream, name = self._stream(), self._memory("device", self._device)
        if name is not None:
            start, stop = self.rng.choice(PARTS)
            self._op("memset_async", stream=stream, dst=name, bytes=stop - start, dst_off=start)

    def _inc(self) -> None:
        stream, name = self._stream(), self._memory("device", self._device)
        if name is not None:
            self._op("inc", stream=stream, buf=name)

    def _host_func(self) -> None:
        self._op("host_func", stream=self._stream(), us=2, buf=self._memory("pinned"))

    def _callback(self) -> None:
        """Launch a callback, or call those that are due."""
        if self.task is not None:
            return
        if self.due and self.rng.random() < 0.5:
            self._call_back()
            return
        stream = self._stream(device=0)
        if stream not in self.subscribed:
            self.subscribed.append(stream)
            self._add("subscribe", stream=stream)
        self._add("launch_callback", stream=stream, block=self.rng.random() < 0.7)
        self.due += 1
        ends = self._ends()
        if ends is not None:
            self._op("memcpy_async", stream=stream, dst=ends[0], src=ends[1], bytes=16)

    def _call_back(self) -> None:
        """Call all callbacks that are due. They read and write memory of the host."""
        due, self.due = self.due, 0
        for _ in range(due):
            self._add("process_report")
            name = self._memory("pinned")
            if name is not None and self.rng.random() < 0.8:
                self._add("host_read", buf=name)
            if name is not None and self.rng.random() < 0.4:
                self._add("host_write", buf=name, value=self.rng.randrange(100))
            self._add("end_report")

    def _sync_copy(self) -> None:
        """A synchronous copy or fill. With two tasks none of pageable memory, which waits before it queues."""
        ends = self._ends()
        if ends is None or (len(self.tasks) > 1 and "g" in ends):
            return
        start, stop = self.rng.choice(PARTS)
        if self.rng.random() < 0.3:
            if ends[0] != "g":
                self._op("memset", dst=ends[0], bytes=stop - start, dst_off=start)
        else:
            self._op("memcpy", dst=ends[0], src=ends[1], bytes=stop - start, dst_off=start)

    def _host(self) -> None:
        name = self._memory("pinned")
        if name is None:
            return
        if self.last is not None and self.rng.random() < self.care:
            self._hand_over(None)
        match self.rng.randrange(4):
            case 0:
                self._add("host_read", buf=name)
            case 1:
                self._add("host_write", buf=name, value=self.rng.randrange(100))
            case _:
                start, stop = self.rng.choice(PARTS)
                every_other = [[name, at, at + 4] for at in range(start, stop, 8)]
                extents = self.rng.choice(([[name, start, stop]], every_other))
                self._add("host_access", **{self.rng.choice(("reads", "writes")): extents})

    # --- order

    def _event(self) -> str:
        return self.rng.choice(sorted(self.events))

    def _hand_over(self, stream: str | None) -> None:
        """Put *stream* behind the last operation: with an event, or by a wait of the host (None: that is enough)."""
        assert self.last is not None
        home = self.here[self.task]
        self._go_to(self.homes.get(self.last, home))
        event = self._event()
        if stream is None or self._device or self.events[event] == "flag" or self.rng.random() < 0.2:
            self._add("sync_stream", stream=self.last)
        else:
            self.recorded.add(event)
            self._add("record", event=event, stream=self.last)
            self._go_to(home)
            self._add("wait", event=event, stream=stream)
        self._go_to(home)

    def _record(self) -> None:
        stream, event = self._stream(device=0), self._event()
        self.recorded.add(event)
        self._add("record", event=event, stream=stream)

    def _wait(self) -> None:
        event = self._event()
        if self.acl and event not in self.recorded and self.events[event] != "snapshot":
            return
        self._add("wait", event=event, stream=self._stream(device=0 if self.acl else None))

    def _reset(self) -> None:
        event = self._event()
        if self.events[event] == "flag" and event in self.recorded:
            self._add("reset", event=event, stream=self._stream(device=0))

    def _remake_event(self) -> None:
        """The same name, and another event."""
        if len(self.tasks) == 1:
            self._go_to("primary0")
            event = self._event()
            self._add("destroy_event", event=event)
            self._add("create_event", event=event)

    def _sync(self) -> None:
        match self.rng.randrange(6):
            case 0 | 1:
                self._add("sync_stream", stream=self._stream())
            case 2 | 3:
                event = self._event()
                if event in self.recorded or not self.acl:
                    self._add("sync_event", event=event)
            case 4:
                self._add("sync_device")
            case _:
                ids = [
                    step["id"]
                    for step in self.steps
                    if step["op"] in AWAITABLE and "id" in step and step.get("task") == self.task
                ]
                if ids:
                    self._add("sync_op", of=self.rng.choice(ids))

    def _query(self) -> None:
        repeated = {"until": self.rng.random() < 0.5, "work_us": self.rng.choice((1, 30))}
        if self.rng.random() < 0.5:
            self._add("query_stream", stream=self._stream(), **repeated)
        elif (event := self._event()) in self.recorded or not self.acl:
            self._add("query_event", event=event, **repeated)

    def _notify(self) -> None:
        counts = [sum(step["op"] == op for step in self.steps) for op in ("record_notify", "wait_notify")]
        op = "wait_notify" if counts[1] < counts[0] and self.rng.random() < 0.5 else "record_notify"
        self._add(op, notify=self.notifies[0], stream=self._stream(device=0))

    def _word(self) -> None:
        stream, most = self._stream(device=0), self.written[-1]
        if most and self.rng.random() < 0.5:
            self._add("value_wait", buf="w", value=self.rng.randint(1, most), stream=stream)
        else:
            self.written.append(most + 1)
            self._add("value_write", buf="w", value=most + 1, stream=stream)

    # --- memory and streams

    def _allocate(self) -> None:
        name, stream = f"m{self.made}", self._stream()
        self._op("malloc_async", name=name, bytes=SIZE, stream=stream)
        self.pools[name] = self.task, self._device

    def _free_to_pool(self) -> None:
        own = [name for name, (task, _) in self.pools.items() if task == self.task]
        if own:
            name = self.rng.choice(own)
            _, device = self.pools.pop(name)
            self._op("free_async", name=name, stream=self._stream(device=device))

    def _free(self) -> None:
        """Free memory of the device at once. Nothing names it later."""
        names = [name for name in self.buffers if name[0] == "d" and name not in self.freed]
        if len(self.tasks) == self.devices == 1 and len(names) > 1:
            self._go_to("primary0")
            self.freed.add(self.rng.choice(names))
            self._add("free", name=max(self.freed))

    def _new_stream(self) -> None:
        if len(self.tasks) == self.devices == 1:
            self._go_to("primary0")
            name = f"t{len(self.homes)}"
            self._add("create_stream", name=name, flags=self.rng.choice(("blocking", "nonblocking")))
            self.homes[name] = "primary0"

    def _end_stream(self) -> None:
        if len(self.tasks) == 1 and len(self.homes) > 2:
            name = self.rng.choice(sorted(self.homes))
            self._go_to(self.homes.pop(name))
            self._add("destroy_stream", name=name)
            self.last = None if self.last == name else self.last


def _device_of(home: str) -> int:
    """The device of a context. Contexts that a program makes are on the first one."""
    return int(home.removeprefix("primary")) if home.startswith("primary") else 0
