"""Memory that HostRegister pins a second time: its row has the place of the first row of the same memory."""

import array
import gzip
import json

import numpy as np
from histories import tiny
from test_files import write

from acl_py import HostRegister, HostUnregister, MallocHost, current_simulation
from acl_py.explain.recordings import case_of
from acl_py.programs.replay import replay
from acl_py.trace import read_trace

KIB = 1024


async def registered(*memories):
    for memory in memories:
        await HostRegister(memory)
        await HostUnregister(memory)


def again(trace):
    return [row.again for row in trace.timeline().buffers]


@tiny()
async def test_the_same_bytes_of_the_same_object_are_known_again():
    await MallocHost(64)
    whole, other = np.zeros(4 * KIB, np.uint8), array.array("q", [0] * 64)
    await registered(whole, whole[:KIB], other, whole, whole[:KIB], whole[KIB:], whole[:KIB], other)
    assert again(current_simulation().trace) == [-1, -1, -1, -1, 1, 2, -1, 2, 3]


@tiny()
async def test_another_object_is_not_the_same_memory_wherever_it_is():
    """The second array may get the address of the first one, which is gone."""
    for _ in range(3):
        await registered(np.zeros(4 * KIB, np.uint8))
    kept = np.zeros(KIB, np.uint8)
    for _ in range(2):  # nobody knows whose bytes are at an address
        await HostRegister(kept.ctypes.data, KIB)
        await HostUnregister(kept.ctypes.data)
    assert again(current_simulation().trace) == [-1] * 5


@tiny()
async def test_a_program_registers_the_same_memory_again():
    memory = np.zeros(KIB, np.uint8)
    await registered(memory, memory)
    timeline = current_simulation().trace.timeline()
    case = case_of(timeline, "again")
    first, second = [step.fields for step in case.program.steps if step.op == "host_register"]
    assert (first["again"], second["again"]) == (None, first["name"])
    repeated = replay(case.program, device=case.device, rules=case.rules)
    assert again(repeated.trace) == again(current_simulation().trace) == [-1, 0]


def test_a_trace_of_form_12_does_not_know_it(tmp_path):
    path, old = tmp_path / "today.acl", tmp_path / "old.acl"

    @tiny()
    async def program():
        memory = np.zeros(KIB, np.uint8)
        await registered(memory, memory)
        current_simulation().trace.save(path)

    program()
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    write(old, [line | {"version": 12} if "form" in line else line for line in lines if line.get("column") != "again"])
    assert [row.again for row in read_trace(path).buffers] == [-1, 0]
    assert [row.again for row in read_trace(old).buffers] == [-1, -1]
