"""What a completion that does not come waits for: the chain of causes, for reports of hangs and of time-outs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from device_model.completions import AllOf, Completion, FirstOf, Need, Process
from device_model.ops import Op
from device_model.steps import Step

if TYPE_CHECKING:
    from device_model.device import Device

_LONGEST = 20  # links that are told of


class Chains:
    """Who waits for whom, as it is now. A completion knows only who waits for it; this looks the other way."""

    ROUND = ", and so it goes round"  # how the last line ends if the chain closes
    UNTIL = " lasts until"  # how a line ends of a wait that something queued would end

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
                lines.append(f"{link!r}{self.ROUND}")
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
                lines.append(
                    f"{text.removesuffix(' for')}, with {skipped} more of its stream, for" if skipped else text
                )
            link = after
        return lines

    def _look(self, link: Completion) -> tuple[str, Completion | None]:
        cause = next((each for each in self._causes.get(link, ()) if not each.done), None)
        if isinstance(link, Op):
            return self._look_at_op(link, cause)
        if isinstance(link, Need):
            return self._look_at_need(link)
        if isinstance(link, Step):
            return self._look_at_step(link, cause)
        if isinstance(link, Process):  # the host's own doings, of which the wait itself tells
            return "", link.awaited
        if isinstance(link, AllOf | FirstOf):
            return "", cause
        return f"{link!r}: nothing that is queued or running would complete that", cause

    def _look_at_need(self, need: Need) -> tuple[str, Completion | None]:
        hope = need.hope()
        if hope is not None and not isinstance(hope, Completion):
            hope = next((each for each in self._causes.get(hope, ()) if not each.done), None)
        if hope is None or hope.done:
            return f"{need.what}: nothing that is queued or running would do that", None
        return f"{need.what}, but not before", hope

    def _look_at_step(self, step: Step, cause: Completion | None) -> tuple[str, Completion | None]:
        awaited = step.awaited
        if awaited is not None and not awaited.done:
            if isinstance(awaited, Op | AllOf | Process) or cause is not None:
                return f"{step!r} waits for", awaited
            hope = step.hope() if step.hope is not None else None
            if hope is not None and not hope.done:
                return f"{step!r}{self.UNTIL}", hope
        return f"{step!r}: nothing that is queued or running would end that", None

    def _look_at_op(self, op: Op, cause: Completion | None) -> tuple[str, Completion | None]:
        if op.start_ns >= 0:
            return f"{op!r} is running", None
        if cause is not None:
            return f"{op!r} waits for", cause
        fifo = op.queue.fifo
        if op in fifo and fifo[0] is not op:
            return f"{op!r} stands behind another stream's work in hardware queue {op.queue.index}", fifo[0]
        return f"{op!r} is next, when its engine is free", None
