"""Runs a case: sets the stage, makes the mistake, looks at the damage."""

import ast
from dataclasses import dataclass
from inspect import iscoroutine

from histories import state

import acl_py as acl
from acl_py.runtime.scopes import scope_var
from tests.acl_py.misuse.cases import NAMES, PRELUDE, work


@dataclass(frozen=True)
class Outcome:
    """What the mistake led to."""

    error: BaseException | None
    unchanged: bool  # by the call that failed
    usable: bool  # a program runs afterwards


def code_of(text):
    return compile(text, "example.py", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def _execute(text, names, after=0):
    """Run *text*, whose first line stands behind *after* others of example.py."""
    coroutine = eval(code_of("\n" * after + text), names)
    if coroutine is not None:
        await coroutine


def run(case):
    async def main():
        sim, names = acl.current_simulation(), dict(NAMES)
        await _execute(PRELUDE, names)
        lines = PRELUDE.count("\n")
        await _execute("\n".join(case.before), names, lines)
        before, error = state(sim), None
        try:
            await _execute(case.misuse, names, lines + len(case.before))
        except Exception as raised:
            error = raised
        unchanged = state(sim) == before
        for coroutine in filter(iscoroutine, names.values()):
            coroutine.close()  # a case forgot to await it, as it should
        return Outcome(error, unchanged, await _is_usable(sim, error))

    return acl.run(main, device="tiny", rules=case.rules, workers=1)


async def _is_usable(sim, error):
    """Does a small program run, after what the rules ask for?"""
    runtime = sim.runtime
    if runtime.closed is not None:
        return True  # the case was about the end
    if isinstance(error, acl.AclError) and scope_var.get().context.error is not None:
        runtime.device(0).uses = 1
        await acl.ResetDevice(0)
        await acl.SetDevice(0)
    begin = len(sim.trace.ops)
    await (await acl.LaunchKernel(work, 1))  # not for the device: after a deadlock another stream still hangs
    return len(sim.trace.ops) > begin
