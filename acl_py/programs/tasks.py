"""The tasks of a stream program: sequences of steps that wait for the device side by side, on one host clock.

A wait holds back its task alone. As in asyncio, a task goes on until it waits: for the device, or, at a "give_way", for
something outside devices. Then the task goes on whose next step comes first in the program, of those that can run.
So an unchanged program always makes its calls in the same order, and a wait that an edit takes out no longer interrupts
its task. Once no task can run, simulated time passes until one can. There is one thread and no event loop.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context, copy_context
from heapq import heappop, heappush
from types import coroutine
from typing import Any, TypeVar

from acl_py.callers import Role, role
from acl_py.programs.format import Step
from acl_py.runtime.blocking import BlockingBridge
from acl_py.runtime.runtime import Runtime
from acl_py.waiting.deadlocks import Waiting
from device_model.completions import Completion

T = TypeVar("T")
_INSTANTS = 1 << 62  # no limit


class Task:
    """One task: the steps that it still has to make, and the one that it is making."""

    __slots__ = ("call", "context", "error", "step", "steps")

    def __init__(self, name: str | None) -> None:
        self.steps: deque[Step] = deque()
        self.step: Step | None = None
        self.call: Coroutine[Any, Any, None] | None = None  # it makes the step
        self.context: Context = copy_context()  # its current context and last error
        if name is not None:
            self.context.run(role.set, Role(name=name))
        self.error: Exception | None = None  # to raise out of its wait


class Tasks(BlockingBridge):
    """Makes the steps of several tasks, and is the bridge through which they wait."""

    def __init__(self, runtime: Runtime, steps: Iterable[Step]) -> None:
        super().__init__(runtime, alone=True)
        self.running: Task | None = None  # the task whose turn it is, or was last
        self._tasks: dict[str | None, Task] = {}
        for step in steps:
            if step.task not in self._tasks:
                self._tasks[step.task] = Task(step.task)
            self._tasks[step.task].steps.append(step)
        self._left = len(self._tasks)  # tasks that still have something to do
        self._ended: set[int] = set()  # the indices of steps
        self._held: defaultdict[int, list[Task]] = defaultdict(list)  # tasks whose next step comes after that step
        self._ready: list[tuple[int, int, Task]] = []  # a heap of (next step, order of wake-up, task)
        self._ahead: Task | None = None  # the task that has not waited since its last step: it goes on
        self._wakes = 0

    def run(self, make: Callable[[Step], Coroutine[Any, Any, None]], resumed: Callable[[Step], None]) -> None:
        """Let all tasks make their steps, each with a coroutine of *make*. If a call goes on after a wait, and the next
        step of its task is a "resume", that step is over: it is given to *resumed*.

        Raises:
            DeadlockError: nothing can end the waits of the tasks that are left.
        """
        with self.lock:
            try:
                for task in self._tasks.values():
                    self._line_up(task)
                while self._left:
                    self._go_on(self._next(), make, resumed)
                self.running = None
            finally:
                for task in self._tasks.values():
                    if task.call is not None:
                        task.call.close()

    async def wait(self, completion: Completion, waiting: Callable[[], Waiting]) -> None:
        """Hold the running task until *completion* is done.

        Raises what `Runtime.deadlock` makes if nothing can ever complete it.
        """
        task = self.running
        if self._left <= 1 or task is None:
            await super().wait(completion, waiting)
            return

        def wake() -> bool:
            self._make_ready(task)
            return True

        self.runtime.scheduler.watch(completion, wake)
        self.runtime.waiters[task] = waiting()
        try:
            await _suspend()
        finally:
            del self.runtime.waiters[task]
        if task.error is not None:
            raise task.error

    async def breathe(self) -> None:
        """Let the other tasks that can run have their turns."""
        if self._ready and self.running is not None:
            self._make_ready(self.running)
            await _suspend()

    def _next(self) -> Task:
        """Return the task that goes on. If none can run, time passes until one can."""
        task, self._ahead = self._ahead, None
        if task is not None:
            return task
        if not self._ready:
            self._let_time_pass()
        return heappop(self._ready)[2]

    def _go_on(
        self, task: Task, make: Callable[[Step], Coroutine[Any, Any, None]], resumed: Callable[[Step], None]
    ) -> None:
        self.running = task
        if task.call is None:
            task.step = task.steps.popleft()
            task.call = make(task.step)
        elif task.steps and task.steps[0].op == "resume":
            step = task.steps.popleft()
            resumed(step)
            self._note_end(step)
        try:
            task.context.run(task.call.send, None)
        except StopIteration:
            task.call = None
            self._end(task)

    def _end(self, task: Task) -> None:
        """Note that *task* has made its step."""
        assert task.step is not None, "a task ends a step"
        self._note_end(task.step)
        if not task.step.gives_way and task.steps and self._may_begin(task.steps[0]):
            self._ahead = task
        else:
            self._line_up(task)

    def _note_end(self, step: Step) -> None:
        self._ended.add(step.index)
        for held in self._held.pop(step.index, ()):
            self._make_ready(held)

    def _line_up(self, task: Task) -> None:
        """Let *task* take its turn for its next step, now or after the step that this one comes after."""
        if not task.steps:
            self._left -= 1
            return
        step = task.steps[0]
        if self._may_begin(step):
            self._make_ready(task)
        else:
            assert step.after is not None, "it waits for a step"
            self._held[step.after].append(task)

    def _may_begin(self, step: Step) -> bool:
        return step.after is None or step.after in self._ended

    def _make_ready(self, task: Task) -> None:
        self._wakes += 1
        # A task without a next step lets the others go first.
        place = task.steps[0].index if task.steps else 1 << 62
        heappush(self._ready, (place, self._wakes, task))

    def _let_time_pass(self) -> None:
        """Run the device until a task wakes; if none can, give an error to the one that has waited longest."""
        runtime, scheduler = self.runtime, self.runtime.scheduler
        try:
            while not self._ready and scheduler.run_to_wake(_INSTANTS):
                pass
        finally:
            runtime.host_ns = max(runtime.host_ns, scheduler.now)
        if not self._ready:
            task, waiting = next(iter(runtime.waiters.items()))
            task.error = runtime.deadlock(waiting)
            self._make_ready(task)


async def inside(context: Context, call: Coroutine[Any, Any, T]) -> T:
    """Run *call* to its end in *context*, with its waits."""
    while True:
        try:
            context.run(call.send, None)
        except StopIteration as end:
            result: T = end.value
            return result
        await _suspend()


@coroutine
def _suspend() -> Generator[None, None, None]:
    yield
