"""The table of verbs is complete, and what reads it knows every verb."""

import inspect
import json
import re

import numpy as np
import pytest
from histories import tiny
from test_api_docstrings import CALLS, COMMUNICATOR, LONG, STAGE, execute, is_there

import acl_py
from acl_py import AclError, Kind, current_simulation, faults
from acl_py.calls.table import VERBLESS, all_verbs
from acl_py.trace import kineto
from tests.acl_py.misuse.cases import NAMES
from tests.test_public_api import EXPECTED

PUBLIC = {name: thing for name, thing in vars(acl_py.public).items() if inspect.iscoroutinefunction(thing)}


def test_the_table_has_every_verb_once_under_the_name_of_its_function():
    functions = {verb.__name__ for verb in PUBLIC.values()}
    assert set(all_verbs()) == functions
    aliases = {alias: name for name, verb in all_verbs().items() for alias in verb.aliases}
    assert {name: verb.__name__ for name, verb in PUBLIC.items() if name != verb.__name__} == aliases
    assert {*functions, *aliases} == set(EXPECTED)
    assert not VERBLESS & {verb.noun for verb in all_verbs().values()}  # the table does not load these


def test_the_names_of_the_vendors_are_those_of_the_docstring():
    for name, verb in all_verbs().items():
        said = re.search(r"Stands for ([^.;]*)", " ".join(inspect.getdoc(PUBLIC[name]).split()))[1]
        in_acl = re.findall(r"\bacl[A-Z]\w+|\baclrt\w+|\baclmdl\w+|\bHccl\w+", said)
        in_cuda = re.findall(r"\bcu[a-zA-Z]+\w*[A-Z]\w+|\bnccl\w+", said)
        assert (verb.acl or "") == (in_acl or [""])[0], name
        if name.endswith("WithTimeout"):  # CUDA has no limits: a wait with one has the name of the wait
            assert verb.cuda == all_verbs()[name.removesuffix("WithTimeout")].cuda, name
        elif name != "GraphAddIfNode":
            assert (in_cuda or [""])[0].startswith(verb.cuda or "\0" * bool(in_cuda)), name


# Calls of the verbs whose waits other tests compare; a rule strikes before the arguments are looked at.
OTHERS = dict(
    line.split(": ", 1)
    for line in """\
MemcpyAsync: await MemcpyAsync(None, 0, None, 0, 1)
Memcpy: await Memcpy(None, 0, None, 0, 1)
Memcpy2dAsync: await Memcpy2dAsync(None, 0, None, 0, 0, 0, 1)
Memcpy2d: await Memcpy2d(None, 0, None, 0, 0, 0, 1)
Memset: await Memset(None, 0, 0, 0)
Init: await Init()
DestroyContext: await DestroyContext(None)
DeviceEnablePeerAccess: await DeviceEnablePeerAccess(0)
DeviceDisablePeerAccess: await DeviceDisablePeerAccess(0)
MallocManaged: await MallocManaged(0)
MemPrefetchAsync: await MemPrefetchAsync(None, 0, 0)
MemAdvise: await MemAdvise(None, 0, 0, 0)
StreamAttachMemAsync: await StreamAttachMemAsync(None, None)
PointerGetAttributes: await PointerGetAttributes(None)
MemRangeGetAttribute: await MemRangeGetAttribute(0, None, 0)
""".splitlines()
)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", all_verbs())
def test_a_fault_rule_strikes_every_verb(name):
    call = (CALLS | OTHERS)[name]
    rules = "acl" if name in CALLS and not is_there(name, "cuda") else "cuda"

    @tiny(rules=rules)
    async def program():
        names = NAMES | {"np": np, "long": LONG, "acl": rules == "acl"}
        await execute(STAGE + COMMUNICATOR, names)
        with (
            current_simulation().fault(faults.fail(call=name, kind=Kind.UNKNOWN)) as rule,
            pytest.raises(AclError, match=rf"{name}\(\) failed: injected"),
        ):
            await execute(call, names)
        assert rule.struck == 1

    program()


def test_kineto_names_the_functions_of_cuda(tmp_path):
    @tiny(rules="cuda")
    async def program():
        stream, event = await acl_py.CreateStream(), await acl_py.CreateEvent()
        managed = await acl_py.MallocManaged(4096)
        await acl_py.MemPrefetchAsync(managed, 4096, 0, stream)
        await acl_py.RecordEvent(event, stream)
        await acl_py.QueryEventStatus(event)
        await acl_py.SynchronizeStreamWithTimeout(stream, 1000)
        await acl_py.Sleep(1)
        context = await acl_py.CreateContext(0)
        await acl_py.DestroyContext(context)
        kineto.write(current_simulation().trace, tmp_path / "kineto.json")

    program()
    events = json.loads((tmp_path / "kineto.json").read_text(encoding="utf-8"))["traceEvents"]
    calls = [(each["cat"], each["name"]) for each in events if each.get("cat") in ("cuda_runtime", "cuda_driver")]
    assert calls == [
        ("cuda_runtime", "cudaStreamCreate"),
        ("cuda_runtime", "cudaEventCreate"),
        ("cuda_runtime", "cudaMallocManaged"),
        ("cuda_runtime", "cudaMemPrefetchAsync"),
        ("cuda_runtime", "cudaEventRecord"),
        ("cuda_runtime", "cudaEventQuery"),
        ("cuda_runtime", "cudaStreamSynchronize"),
        ("cuda_runtime", "Sleep"),
        ("cuda_driver", "cuCtxCreate"),
        ("cuda_driver", "cuCtxDestroy"),
    ]
