"""What a completion that does not come waits for: the chain of causes, for reports of hangs and of time-outs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from device_model.ops import Op
from device_model.scheduler import AllOf, Completion, FirstOf, Process
from device_model.streams import Step

if TYPE_CHECKING:
    from device_model.device import Device

_LONGEST = 20  # links that are told of


class Chains:
    """Who waits for whom, as it is now. A completion knows only who waits for it; this looks the other way."""

    def __init__(self, devices: "Iterable[Device]", more: Iterable[Completion] = ()) -> None:
        """What the streams of *devices* do; *more* completions are known to be waited for."""
        self._causes: dict[object, list[Completion]] = {}
        todo: list[Completion] = list(more)
        for device in devices:
            todo += device.unfinished()
            for stream in (stream for context in device.contexts for stream in context.everything()):
                todo += [stream.tail, *stream.pending, *stream.steps]
        seen: dict[Completion, None] = {}
        for completion in todo:  # grows
            if completion in seen or completion.done:
                continue
            seen[completion] = None
            for waiter in completion.waiters or ():
                self._causes.setdefault(waiter, []).append(completion)
                if isinstance(waiter, Completion):
                    todo.append(waiter)

    def of(self, completion: Completion) -> list[str]:
        """One line for each link: what waits, and how it is held up; the next line is what it waits for."""
        lines: list[str] = []
        seen: dict[Completion, None] = {}
        link: Completion | None = completion
        while link is not None and not link.done:
            if link in seen:
                lines.append(f"{link!r}, and so it goes round")
                break
            if len(lines) == _LONGEST:
                lines.append("... and so on")
                break
            seen[link] = None
            text, after = self._look(link)
            skipped = 0
            while isinstance(link, Op) and isinstance(after, Op) and after.stream is link.stream and after not in seen:
                _, further = self._look(after)
                if not isinstance(further, Op) or further.stream is not link.stream:
                    break
                seen[after] = None
                after, skipped = further, skipped + 1
            if text:
                lines.append(text + (f", and so do {skipped} more of its stream" if skipped else ""))
            link = after
        return lines

    def _look(self, link: Completion) -> tuple[str, Completion | None]:
        cause = next((each for each in self._causes.get(link, ()) if not each.done), None)
        if isinstance(link, Op):
            return self._look_at_op(link, cause)
        if isinstance(link, Process) and link.waiting is not None and not link.waiting.done:
            if isinstance(link.waiting, Op | AllOf | Process) or cause is not None:
                return f"{link!r} waits", link.waiting
            hope = link.hope() if isinstance(link, Step) and link.hope is not None else None
            if hope is not None and not hope.done:
                return f"{link!r} lasts until", hope
        if isinstance(link, Step):
            return f"{link!r}: nothing that is queued or running would end that", None
        if isinstance(link, AllOf | FirstOf):
            return "", cause
        return f"{link!r}: nothing that is queued or running would complete that", cause

    def _look_at_op(self, op: Op, cause: Completion | None) -> tuple[str, Completion | None]:
        if op.start_ns >= 0:
            return f"{op!r} is running", None
        if cause is not None:
            return f"{op!r} waits", cause
        fifo = op.queue.fifo
        if op in fifo and fifo[0] is not op:
            return f"{op!r} stands behind another stream's work in a hardware queue ({op.queue!r})", fifo[0]
        return f"{op!r} waits for room on {op.queue.engine!r}", None
