"""Device profiles: all numbers of a card, each with its source.

A profile is a TOML file. Every number is a table with a source, which begins with "measured", "documented" or
"assumed", so a reader knows how far to trust it:

    [latency]
    copy_gap = { value = 600, source = "measured: fitted on timelines" }

`load("h200")` reads a profile that comes with the package, `load("my/card.toml")` a file. A field that is missing,
unknown, of the wrong type or out of range is refused with the name of the file and of the field.

Times are in nanoseconds, sizes in bytes. A `Curve` gives the time of a transfer by its size (curves.py).

The dataclasses below are the format: a new number is a new field here, and a line in each file of profiles/.
"""

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

from device_model.aicore.core.spec import CoreSpec
from device_model.completions import Nanoseconds
from device_model.curves import Curve
from device_model.errors import ProfileError as ProfileError
from device_model.errors import printable
from device_model.frozen import Frozen
from device_model.kernel.ranges import MOST, Count, Few
from device_model.library.spec import LibrarySpec
from device_model.links.collectives import CollectivesSpec
from device_model.links.spec import LinksSpec
from device_model.memory.pages import PAGE, Moves
from device_model.rules import RULES
from device_model.sm.spec import SmSpec

_SOURCES = ("measured", "documented", "assumed")
_FOLDER = Path(__file__).with_name("profiles")
RunMode = Annotated[int, 0, 1]


class HostCosts(Frozen):
    """How long each call takes the host when it does not have to wait, in nanoseconds.

    Malloc, Free, and what a pool takes from the device and gives back, depend on the number of bytes.
    """

    launch: int  # LaunchKernel
    launch_first: int  # in addition, for the first launch of a simulation
    copy: int  # MemcpyAsync between pinned host memory and the device
    copy_on_device: int  # MemcpyAsync inside the device
    copy_more: int  # each further copy of MemcpyBatchAsync over the bus; inside the device it is copy_on_device
    fill: int  # MemsetAsync
    record: int  # RecordEvent
    wait: int  # StreamWaitEvent
    query: int  # StreamQuery, QueryEventStatus
    sync: int  # a synchronisation that finds nothing to wait for
    wake: int  # from a completion to the return of the call that waited for it
    wake_asleep: int  # in addition, if the thread slept during the wait: for a blocking event
    host_function: int  # LaunchHostFunc
    malloc: Curve
    free: Curve  # after it has waited for the device
    malloc_host: int  # per MiB
    free_host: int  # per MiB
    register: int  # per MiB
    unregister: int
    malloc_async: int
    pool_growth: Curve  # in addition, if the pool has to take so many bytes from the device
    pool_trim: Curve  # in addition, if the pool gives so many bytes back to the device
    free_async: int
    create_stream: int
    destroy_stream: int
    create_event: int
    destroy_event: int
    create_communicator: int  # CommInitAll, CommInitRootInfo and CommSplit, once all ranks have called
    destroy_communicator: int
    collective: int  # a call of one rank, with its share of the end of a group
    elapsed: int
    set_device: int
    memory_info: int
    other: int  # every other call
    cold_bytes: int  # a host that copies so many bytes itself has none of the runtime's code and data in its caches
    cold_permille: int  # how much longer the next call of each kind then takes
    gap: int  # what a replayed stream program takes between two calls, if it does not say
    gap_last: int  # in addition, before the synchronisation that ends it


class Latencies(Frozen):
    """How long the device takes from one event to the next, in nanoseconds."""

    submit_kernel: int  # from the return of the call to the earliest start
    submit_copy: int
    kernel_same_stream: int  # from the end of a kernel to the start of the next
    kernel_other_stream: int  # the same across streams, through an event or the default stream
    engines: int  # from the end of work on one engine to the start of work on another that waited for it
    copy_gap: int  # between two copies of one engine
    block: int  # how long each block takes beyond its own work
    kernel_drain: int  # from the end of the last block to the end of the kernel
    copy_on_device_tail: int  # a copy inside the device lets the next operation start this long before its end
    host_function_start: int  # from the end of the work before it, if the thread sleeps: it has to wake up
    host_function_asleep: int  # in addition, if the thread has slept long, so its processor sleeps deeply
    host_function_idle: int  # for so long
    host_function_end: int  # to the start of the work behind it
    host_function_pause: int  # between two of them


class Cores(Frozen):
    """The AI cores (SMs), and what all of them together can do."""

    count: Count
    resident_kernels: Count
    flops: Count  # per second, in single precision
    bytes_per_second: Count  # from and to device memory


class Queues(Frozen):
    """Hardware queues: how many there are, and how many operations each holds that have not started."""

    compute: Few
    copy: Few  # for each direction
    depth: Count


class Limits(Frozen):
    """How many objects of each kind a device can have at a time."""

    streams: Count  # besides the default streams
    events: Count  # event ids; the rules say which events hold one
    notifies: Count


class Memory(Frozen):
    """Device memory."""

    bytes: Count
    alignment: Count
    pool_chunk: Count  # the stream-ordered pool takes bytes from the device in multiples of this


class Copies(Frozen):
    """How long copies and fills take, and how pageable host memory is staged."""

    h2d: Curve
    d2h: Curve
    d2d: Curve
    peer: Curve  # to another device, if one of the two has access to the other
    peer_staged: Curve  # to another device without access, through the host
    peer_staged_call: Curve  # how long the call of such a copy takes the host
    fill: Curve
    fill_pinned: Curve
    duplex_bytes: int  # from this size on, copies in both directions slow each other
    duplex_h2d_permille: int  # how much longer a copy to the device takes while one from it runs
    duplex_d2h_permille: int  # the same for a copy from the device
    pageable_small_bytes: int  # pageable copies to the device up to this size go through a ring
    pageable_small: Curve  # how long such a copy takes the host
    ring_bytes: int  # the size of the ring: the host waits if there is no room for one more copy
    ring_overhead: int  # bytes that each copy takes in the ring beyond its own
    stage_chunk: Count  # larger copies are staged in chunks of this size
    stage_buffers: Few  # the number of buffers that the chunks take turns in
    stage_fixed: int  # how long staging takes the host, whatever the size
    stage: Curve  # in addition, by the size of the copy
    unstage_fixed: int  # how long the way back takes the host for each chunk, whatever its size
    unstage: Curve  # in addition, by the size of the chunk
    host_to_host: Curve


class Graphs(Frozen):
    """Captures and graphs: how long calls take the host, in nanoseconds, and how the device runs the nodes.

    Curves are by the number of kernels, copies inside the device among them; `end` and `update` by that of all nodes.
    Kernels that follow one another in a chain are a *run*: a launch sends it as one, whatever its length. It sends each
    other node by itself (graphs.makeup has the sums).
    """

    captured: int  # a call that adds a node to a capture
    mark: int  # a record or a wait in a capture
    refused: int  # a call about captures, graphs or managed memory that is refused
    begin: int  # BeginCapture, and other calls about captures and graphs
    add_if: int  # GraphAddIfNode
    end: Curve  # EndCapture
    instantiate: Curve
    instantiate_other: int  # in addition, for a node that is no kernel
    instantiate_if: int  # for an IF node
    instantiate_branch: int  # for each chain of nodes but one
    instantiate_edge: int  # for each dependency of a node but its first
    upload: Curve
    upload_other: int  # for a node that is no kernel
    upload_if: int  # for an IF node
    upload_run: int  # for each run but one
    launch_first: Curve  # of an executable that was not uploaded
    launch: Curve
    launch_run: int  # for each run but one
    launch_copy: int  # for a copy over the bus
    launch_fill: int
    launch_mark: int  # for a record, a wait, an allocation, a free or an IF node
    launch_host: int  # for a host function
    allocate: int  # in addition, for the first launch of an executable that allocates memory
    update: Curve
    node_gap: int  # from the end of a kernel to the start of the next one of its graph
    copy_on_device: Curve  # a copy inside the device that is a node, by its bytes
    condition: int  # from the turn of an IF node to the start of its body
    launch_gap: int  # from the end of the work before a launch to the start of its first nodes


class Managed(Frozen):
    """Managed memory: what its calls and the moves of its pages take, in nanoseconds."""

    malloc: int  # MallocManaged
    prefetch: int  # MemPrefetchAsync that only queues the prefetch
    prefetch_page: int  # in addition, for each page that it moves to a device, if the call itself begins the prefetch
    driver_thread: int  # how long the driver's thread takes for a prefetch or an attachment behind work
    attach: int  # StreamAttachMemAsync
    advise: int  # MemAdvise
    advise_block: int  # in addition, for each 2 MB, if the page tables change
    advise_map: int  # in addition, for each page that SetAccessedBy maps
    range_attribute: int  # MemRangeGetAttribute
    to_device: Curve  # a prefetch to a device, by the bytes that move
    to_host: Curve  # a prefetch to the host, or an eviction
    fault: int  # the first round of faults of an operation on a device
    fault_round: int  # each further round
    fault_to_device: Curve  # in addition, by the bytes that move
    remote: Curve  # a device reaches bytes of the host, where they stay
    host_fault: int  # a fault of the host on a region of 64 KB that is on a device
    host_map: int  # each page that the host enters in its page table
    host_unshare: int  # each page that the host writes although a device has, or had, a copy

    def device_ns(self, moves: Moves) -> Nanoseconds:
        """Return how much longer an operation takes whose accesses made *moves*."""
        faults = self.fault + (moves.rounds - 1) * self.fault_round if moves.rounds else 0
        moved = self.fault_to_device[moves.to_device * PAGE] if moves.to_device else 0
        return faults + moved + self._evicted_ns(moves) + (self.remote[moves.remote] if moves.remote else 0)

    def prefetch_ns(self, moves: Moves, *, by_driver: bool) -> Nanoseconds:
        """Return how long a prefetch takes that makes *moves*; the driver's thread first changes the page tables."""
        begin = moves.to_device * self.prefetch_page if by_driver else 0
        return begin + (self.to_device[moves.to_device * PAGE] if moves.to_device else 0) + self._evicted_ns(moves)

    def host_ns(self, moves: Moves) -> Nanoseconds:
        """Return how long the host takes for an access that made *moves*."""
        faults = moves.host_faults * self.host_fault + moves.mapped * self.host_map + moves.unshared * self.host_unshare
        return faults + self._evicted_ns(moves)

    def _evicted_ns(self, moves: Moves) -> Nanoseconds:
        return self.to_host[moves.to_host * PAGE] if moves.to_host else 0


class Video(Frozen):
    """The hardware for videos and images: how many frames of 1920x1080 one channel does in a second; 0 if there is
    none.

    Images have so many channels at the most that work at this rate. More of them share it.
    """

    decode: int
    encode: int
    vpc: Count  # resizes, cuts, pastes and converts images
    vpc_channels: Few
    jpeg_decode: Count
    jpeg_decode_channels: Few


class DeviceProfile(Frozen):
    """One card and its numbers.

    Attributes:
        name: Its name, for reports.
        description: What it is, in a line.
        rules: The name of the rules that it follows.
        devices: How many there are.
        run_mode: Where programs run, as aclrtGetRunMode tells: 0 on the device itself, 1 on a host with devices in it.
            On a board without a host (0), device memory is the memory of the program.
        links: How its devices are joined, None if each pair has links that nothing else uses.
        collectives: How long collectives take on it, None if it has none.
        aicore: Its AI cores, None if core kernels cannot run on it.
        sm: Its SMs, None if thread-block kernels cannot run on it.
        library: What kernels of a library get from it, None if that is not known.
        managed: What managed memory costs on it, None if it has none.
        video: Its video hardware, None if it has none that programs can use.
        driver: The version of the vendor's driver, such as 13000 for CUDA 13.0; None for that of the newest compilers
            that are installed.
        sources: For each value, by its dotted name, where it comes from.
        overlay: The overlay that was laid over it, as `overlay.load` takes it; "" if there is none.

    The other attributes are the tables of the file.
    """

    name: str
    description: str
    rules: str
    devices: Few
    run_mode: RunMode
    host: HostCosts
    latency: Latencies
    cores: Cores
    queues: Queues
    limits: Limits
    memory: Memory
    copies: Copies
    graphs: Graphs
    links: LinksSpec | None
    collectives: CollectivesSpec | None
    aicore: CoreSpec | None
    sm: SmSpec | None
    library: LibrarySpec | None
    managed: Managed | None
    video: Video | None
    driver: Count | None
    sources: Mapping[str, str] = field(repr=False, compare=False)
    overlay: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.is_board and self.devices != 1:
            raise ProfileError(
                f"profile {self.name} has run_mode 0, a board without a host, and {self.devices} devices; such a board "
                "is one device"
            )

    @property
    def is_board(self) -> bool:
        """Whether programs run on the device itself, on a board without a host."""
        return self.run_mode == 0


def names() -> list[str]:
    """Return the names of the profiles that come with the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def load(device: "str | Path | DeviceProfile") -> DeviceProfile:
    """Return a profile.

    Args:
        device: The name of a profile of the package, the path of a TOML file, or a profile, which is returned as it is.

    Raises:
        ProfileError: There is no such profile or file, or its content cannot be used.
    """
    if isinstance(device, DeviceProfile):
        return device
    if isinstance(device, str) and not device.endswith(".toml"):
        return _shipped(device)
    return parse(text_of(device, "profile"), printable(str(device)))


def text_of(path: str | Path, what: str) -> str:
    """Return the text of the file *path*, which is a *what*.

    Raises:
        ProfileError: It cannot be read.
    """
    file = printable(str(path))
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # some editors put a mark before the text
    except OSError as error:
        raise ProfileError(f"cannot read the {what} {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProfileError(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except ValueError as error:  # a null character, or half of a surrogate pair
        raise ProfileError(f"no file can be called {file}: {error}") from error


@cache
def _shipped(name: str) -> DeviceProfile:
    if name not in names():
        from difflib import get_close_matches  # imported here: only a mistake needs it

        near = get_close_matches(name.lower(), names(), 1)
        meant = f"did you mean {near[0]}? There" if near else "there"
        raise ProfileError(f"there is no profile {name!r}; {meant} are {', '.join(names())}, or give a .toml file")
    file = _FOLDER / f"{name}.toml"
    return parse(file.read_text(encoding="utf-8"), file.name)


def tables_of(text: str, file: str) -> dict[str, Any]:
    """Return the tables of the TOML document *text*; *file* is its name for messages."""
    import tomllib  # importing it takes a twentieth of the time of importing acl_py

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ProfileError(f"{file} is nested too deeply: no value of a profile is a list of lists of lists") from error
    except ValueError as error:  # a TOMLDecodeError, or Python's error for a number of 5,000 digits
        raise ProfileError(f"{file} is not TOML: {printable(str(error))}") from error


def parse(text: str, file: str) -> DeviceProfile:
    """Return the profile in *text*; *file* is its name for messages."""
    sources: dict[str, str] = {}
    profile: DeviceProfile = _read(DeviceProfile, tables_of(text, file), file, "", sources)
    if profile.rules not in RULES:
        raise ProfileError(f"{file}: rules must be one of {', '.join(RULES)}, not {profile.rules!r}")
    return profile


def _read(type_: type[Any], table: object, file: str, prefix: str, sources: dict[str, str]) -> Any:
    what = prefix.rstrip(".") or "a profile"
    if not isinstance(table, dict):
        raise ProfileError(f"{file}: {what} must be a table, not {_shown(table)}")
    hints = get_type_hints(type_, include_extras=True)
    wanted = [each.name for each in fields(type_) if each.name not in ("sources", "overlay")]
    for name in table:
        if name not in wanted:
            raise ProfileError(f"{file}: {prefix}{printable(name)} is unknown; {what} has {', '.join(wanted)}")
    values: dict[str, Any] = {}
    for name in wanted:
        full = prefix + name
        hint = hints[name]
        if type(None) in get_args(hint):
            if name not in table:
                values[name] = None
                continue
            hint = get_args(hint)[0]
        if name not in table:
            raise ProfileError(f"{file}: {full} is missing")
        if isinstance(hint, type) and is_dataclass(hint):
            values[name] = _read(hint, table[name], file, f"{full}.", sources)
        elif hint is str:
            values[name] = _text(table[name], file, full)
        else:
            values[name] = read_value(hint, table[name], file, full, sources)
    if not prefix:
        values["sources"] = MappingProxyType(sources)
    try:
        return type_(**values)
    except ProfileError as error:  # two values do not go together
        raise ProfileError(f"{file}: {error}") from None


def _text(value: object, file: str, full: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ProfileError(f"{file}: {full} must be a text of printable characters, not {_shown(value)}")
    return value


def read_value(hint: type[Any], entry: object, file: str, full: str, sources: dict[str, str]) -> Any:
    """Return the value of *entry*, the field *full* of *file*, and note its source in *sources*.

    Raises:
        ProfileError: It is not of the type *hint*, or out of range.
    """
    if not isinstance(entry, dict) or set(entry) != {"value", "source"}:
        raise ProfileError(f'{file}: {full} must be {{ value = ..., source = "..." }}, not {_shown(entry)}')
    source = _text(entry["source"], file, f"{full}.source")
    if not source.startswith(_SOURCES):
        raise ProfileError(f"{file}: {full}.source must begin with {', '.join(_SOURCES)}, not {_shown(source)}")
    sources[full] = source
    value = entry["value"]
    if hint is Curve:
        return _curve(value, file, full)
    least, most = getattr(hint, "__metadata__", (0, MOST))
    if type(value) is not int or not least <= value <= most:
        raise ProfileError(f"{file}: {full} must be a whole number, {_range(least, most)}, not {_shown(value)}")
    return value


def _curve(value: object, file: str, full: str) -> Curve:
    if not isinstance(value, list) or not all(
        isinstance(point, list) and [type(number) for number in point] == [int, int] for point in value
    ):
        raise ProfileError(f"{file}: {full} must be a list of [bytes, ns] in whole numbers, not {_shown(value)}")
    try:
        return Curve([(size, time) for size, time in value])
    except ValueError as error:
        raise ProfileError(f"{file}: {full}: {error}") from error


def _range(least: int, most: int) -> str:
    return f"{least} to {'2**62' if most == MOST else f'{most:,}'}"


def _shown(value: object) -> str:
    """Return *value* for a message, in at most 60 characters."""
    if isinstance(value, int) and abs(value) > MOST:  # Python refuses to write thousands of digits
        return f"a number of {value.bit_length()} bits"
    text = printable(repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
