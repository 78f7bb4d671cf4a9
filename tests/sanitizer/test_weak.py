"""Weak effects: what no promise orders takes place the other way round, and all else stays as it is."""

import asyncio
from functools import partial

import numpy as np
import pytest

import acl_py as acl
from acl_py import asc
from acl_py.errors import DeadlockError
from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.schedules import Replay, Schedule, following
from acl_py.schedules import parse as parse_schedule
from tests import forks
from tests.campaigns import many
from tests.sanitizer.bytes_of_runs import is_racy, see
from tests.sanitizer.oracle import programs

pytest_plugins = ["pytester"]

H2D, D2H, D2D = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST, acl.MemcpyKind.DEVICE_TO_DEVICE
SIZE = 4096


@acl.kernel(cost=acl.Cost(us=100))
def double(x: acl.InOut):
    x *= np.uint8(2)


@acl.kernel(cost=acl.Cost(us=100))
def add(x: acl.In, y: acl.InOut):
    y += x


@acl.kernel(cost=acl.Cost(us=10))
def broken(x: acl.InOut):
    raise ArithmeticError("as planned")


class World:
    """A pinned buffer of 1s, a device buffer of 0s, and two streams."""

    async def begin(self):
        self.host, self.device = await acl.MallocHost(SIZE), await acl.Malloc(SIZE)
        self.host.numpy()[:] = 1
        await acl.Memset(self.device, SIZE, 0, SIZE)
        await acl.SynchronizeDevice()
        self.one, self.two = await acl.CreateStream(), await acl.CreateStream()
        return self

    async def copy_in(self, stream):
        await acl.MemcpyAsync(self.device, SIZE, self.host, SIZE, H2D, stream)

    async def copy_out(self, stream):
        await acl.MemcpyAsync(self.host, SIZE, self.device, SIZE, D2H, stream)

    async def order(self, first, second):
        event = await acl.CreateEvent()
        await acl.RecordEvent(event, first)
        await acl.StreamWaitEvent(second, event)

    async def bytes(self):
        await acl.SynchronizeDevice()
        back = np.zeros(SIZE, np.uint8)
        await acl.Memcpy(back, SIZE, self.device, SIZE, D2H)
        return back

    async def result(self):
        back = await self.bytes()
        assert (back == back[0]).all()
        return int(back[0])

    async def blocks(self):
        """The blocks of 32 bytes: one value of each of the last two, if all before them are the same in turn."""
        return in_turn(await self.bytes())


def in_turn(cells):
    blocks = cells.reshape(-1, 2, 32)
    assert (blocks == blocks[0, :, :1]).all()
    return tuple(blocks[0, :, 0].tolist())


def both(program, *args, weak="weak", **options):
    """What *program* gives with strong and with *weak* effects; the times are the same."""

    async def whole():
        result = await program(await World().begin(), *args)
        sim = acl.current_simulation()
        return result, (sim.now_ns, [(op.start_ns, op.end_ns) for op in sim.trace.ops])

    runs = [acl.run(whole, effects=effects, **({"device": "tiny"} | options)) for effects in ("strong", weak)]
    (strong, times), (other, same_times) = runs
    assert times == same_times
    return strong, other


async def copy_and_kernel(world, order):
    """A kernel of 100 us in one stream works on what a shorter copy in another one brings."""
    await world.copy_in(world.one)
    await order(world)
    await acl.LaunchKernel(double, 1, (world.device,), world.two)
    return await world.result()


async def by_nothing(world):
    pass


async def by_event(world):
    await world.order(world.one, world.two)


async def by_host(world):
    await acl.SynchronizeStream(world.one)


async def by_query(world):
    while await acl.StreamQuery(world.one) is acl.Status.NOT_READY:
        await acl.HostWork(1)


async def by_sleep(world):
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("order", "weak"), [(by_nothing, 1), (by_event, 2), (by_host, 2), (by_query, 2), (by_sleep, 1)]
)
def test_a_kernel_that_waits_for_the_copy_by_luck_only_has_old_bytes(order, weak):
    assert both(copy_and_kernel, order) == (2, weak)


def test_a_host_that_has_not_waited_has_old_bytes():
    async def program(world):
        await world.copy_out(world.one)
        await asyncio.sleep(0.01)
        early = int(world.host.numpy()[0])
        await acl.SynchronizeStream(world.one)
        return early, int(world.host.numpy()[0])

    assert both(program) == ((0, 0), (1, 0))


def test_a_source_that_is_overwritten_too_early():
    """The copy reads its source behind the write of the host, and the kernel's input behind that of the copy."""

    async def by_the_host(world):
        await world.copy_in(world.one)
        await asyncio.sleep(0.01)
        world.host.numpy()[:] = 7
        return await world.result()

    async def by_a_copy(world):
        other = await acl.Malloc(SIZE)
        await acl.Memset(other, SIZE, 0, SIZE)
        await acl.LaunchKernel(add, 1, (world.device, other), world.one)
        await acl.SynchronizeStream(world.two)
        await asyncio.sleep(0.01)
        await world.copy_in(world.two)
        await acl.SynchronizeDevice()
        await acl.MemcpyAsync(world.device, SIZE, other, SIZE, D2D, world.one)
        return await world.result()

    assert both(by_the_host) == (1, 7)
    assert both(by_a_copy) == (0, 1)


async def waits_for_the_copy_alone(world, kernel):
    await world.copy_in(world.one)
    await acl.LaunchKernel(kernel, 1, (world.device,), world.two)
    await acl.SynchronizeStream(world.one)
    return await world.result()


def test_an_operation_that_runs_still_has_its_effect_before_that_of_one_the_host_has_waited_for():
    assert both(waits_for_the_copy_alone, double) == (2, 1)


def test_the_failure_of_a_body_that_ran_early_comes_at_its_end():
    async def program(world):
        with pytest.raises(acl.AclError, match="as planned"):
            await waits_for_the_copy_alone(world, broken)

    assert both(program) == (None, None)


def test_a_failure_is_found_by_the_call_that_waits():
    async def program(world):
        await acl.LaunchKernel(broken, 1, (world.device,), world.one)
        with pytest.raises(acl.AclError, match="as planned"):
            await acl.SynchronizeStream(world.one)

    assert both(program) == (None, None)
    assert both(program, rules="acl") == (None, None)


def test_host_functions_find_what_is_before_them():
    async def program(world):
        seen = []
        await world.copy_out(world.one)
        await acl.LaunchHostFunc(world.one, lambda: seen.append(int(world.host.numpy()[0])))
        await acl.SynchronizeDevice()
        return seen

    assert both(program) == ([0], [0])


def test_a_host_function_in_another_stream_has_old_bytes():
    async def program(world):
        seen = []
        await world.copy_out(world.one)
        await acl.LaunchHostFunc(world.two, lambda: seen.append(int(world.host.numpy()[0])), us=500)
        await acl.SynchronizeDevice()
        return seen

    assert both(program) == ([0], [1])


async def host_function_writes(world, order):
    """A host function writes what the host, or a copy in another stream, reads much later."""
    cells = world.host.numpy()
    await acl.LaunchHostFunc(world.one, lambda: cells.fill(7), us=10)
    await asyncio.sleep(0.01)
    await order(world)
    await world.copy_in(world.two)
    await acl.SynchronizeStream(world.two)
    return int(cells[0]), await world.result()


@pytest.mark.parametrize(("order", "seen"), [(by_nothing, (1, 1)), (by_event, (7, 7)), (by_host, (7, 7))])
def test_what_a_host_function_has_written_is_kept_back(order, seen):
    assert both(host_function_writes, order) == ((7, 7), seen)


def test_of_a_host_function_and_a_copy_that_write_the_same_bytes_the_later_one_is_first():
    async def program(world):
        cells = world.host.numpy()
        await world.copy_out(world.two)
        await asyncio.sleep(0.01)
        await acl.LaunchHostFunc(world.one, lambda: cells.fill(7), us=10)
        await asyncio.sleep(0.01)
        await acl.SynchronizeStream(world.two)
        await acl.SynchronizeStream(world.one)
        return int(cells[0])

    assert both(program) == (7, 0)


def test_a_host_function_that_wakes_a_task_has_its_effect_at_its_end():
    async def program(world):
        cells, event = world.host.numpy(), asyncio.Event()

        def write():
            cells.fill(7)
            event.set()

        await acl.LaunchHostFunc(world.one, write, us=10)
        await event.wait()
        return int(cells[0])

    assert both(program) == (7, 7)


LARGE = 200_000  # bytes: such a copy of pageable memory goes through buffers of the driver


def test_a_large_copy_of_pageable_memory_is_kept_back():
    """Nothing puts the kernel behind the copy, which ends much earlier."""

    async def program(world, order):
        buffer, source = await acl.Malloc(LARGE), np.ones(LARGE, np.uint8)
        await acl.Memset(buffer, LARGE, 0, LARGE)
        await acl.SynchronizeDevice()
        await acl.MemcpyAsync(buffer, LARGE, source, LARGE, H2D, world.one)
        source[:] = 9  # the copy has read it
        await asyncio.sleep(0.01)
        await order(world)
        await acl.LaunchKernel(double, 1, (buffer,), world.two)
        await acl.SynchronizeDevice()
        back = np.zeros(LARGE, np.uint8)
        await acl.Memcpy(back, LARGE, buffer, LARGE, D2H)
        return sorted({*back.tolist()})

    assert both(program, by_nothing) == ([2], [1])
    assert both(program, by_event) == ([2], [2])
    assert torn(program, by_nothing) == ([2], [1, 2])


def test_a_large_copy_to_pageable_memory_reads_old_bytes_and_is_there_when_its_call_returns():
    async def program(world, order):
        buffer, back = await acl.Malloc(LARGE), np.zeros(LARGE, np.uint8)
        await acl.Memset(buffer, LARGE, 1, LARGE)
        await acl.SynchronizeDevice()
        await acl.LaunchKernel(double, 1, (buffer,), world.one)
        await asyncio.sleep(0.01)
        await order(world)
        await acl.MemcpyAsync(back, LARGE, buffer, LARGE, D2H, world.two)
        return sorted({*back.tolist()})

    assert both(program, by_nothing) == ([2], [1])
    assert both(program, by_event) == ([2], [2])


def test_freed_memory_has_had_all_effects():
    async def program(world, allocate, free):
        other = await allocate(world.one)
        await acl.MemcpyAsync(other, SIZE, world.host, SIZE, H2D, world.one)
        await acl.MemcpyAsync(world.device, SIZE, other, SIZE, D2D, world.one)
        await free(other, world.one)
        return await world.result()

    async def later(buffer, stream):
        await asyncio.sleep(0.01)
        await acl.FreeAsync(buffer, stream)

    pool = partial(acl.MallocAsync, SIZE)
    assert both(program, pool, acl.FreeAsync) == (1, 1)
    assert both(program, pool, later) == (1, 1)
    assert both(program, lambda _: acl.Malloc(SIZE), lambda buffer, _: acl.Free(buffer)) == (1, 1)


def test_a_stream_that_waits_for_a_word_sees_what_a_copy_writes():
    async def program(world):
        word = await acl.Malloc(8)
        await acl.Memset(word, 8, 0, 8)
        await acl.ValueWait(word, 0x0101010101010101, acl.Compare.EQ, world.two)
        await world.copy_in(world.two)
        await acl.MemcpyAsync(word, 8, world.host, 8, H2D, world.one)
        return await world.result()

    assert both(program, rules="acl") == (1, 1)


def test_what_is_behind_a_notify_that_is_recorded_later_finds_what_was_before_the_record():
    async def program(world):
        notify = await acl.CreateNotify()
        await acl.WaitAndResetNotify(notify, world.two)
        await acl.LaunchKernel(double, 1, (world.device,), world.two)
        await world.copy_in(world.one)
        await acl.RecordNotify(notify, world.one)
        return await world.result()

    assert both(program, rules="acl") == (2, 2)


def test_work_that_nobody_waits_for_has_its_effect_at_the_end_of_the_simulation():
    ran = []

    @acl.kernel(cost=acl.Cost(us=10))
    def note(x: acl.InOut):
        ran.append(1)

    async def program(world):
        await acl.LaunchKernel(note, 1, (world.device,), world.one)
        await asyncio.sleep(0.01)
        return len(ran)

    assert both(program) == (1, 1)
    assert len(ran) == 2


# --- kernels that touch more than simulated memory


def test_a_serial_kernel_runs_at_its_end_and_its_bytes_are_kept_back():
    runs = []

    @acl.kernel(cost=acl.Cost(us=100), serial=True)
    def note(x: acl.InOut):
        runs.append(int(x[0]))
        x += np.uint8(5)

    async def program(world):
        runs.clear()
        await acl.LaunchKernel(note, 1, (world.device,), world.one)
        await asyncio.sleep(0.01)
        seen = list(runs)
        await world.copy_out(world.two)
        await acl.SynchronizeStream(world.two)
        return seen, int(world.host.numpy()[0]), await world.result(), runs

    assert both(program) == (([0], 5, 5, [0]), ([0], 0, 5, [0]))


def test_a_serial_kernel_that_fails_is_found_at_once():
    @acl.kernel(cost=acl.Cost(us=10), serial=True)
    def fail(x: acl.InOut):
        x += np.uint8(1)
        raise ArithmeticError("as planned")

    async def program(world):
        await acl.LaunchKernel(fail, 1, (world.device,), world.one)
        with pytest.raises(acl.AclError, match="as planned"):
            await acl.SynchronizeStream(world.one)

    assert both(program) == (None, None)


# --- torn effects


def torn(program, *args, **options):
    return both(program, *args, weak="torn", **options)


async def kernel_behind_a_copy_by_luck(world):
    await world.copy_in(world.one)
    await acl.LaunchKernel(double, 1, (world.device,), world.two)
    return await world.blocks()


async def copy_behind_a_kernel_by_luck(world):
    """The kernel is over when the copy reads."""
    await acl.LaunchKernel(three, 1, (world.device,), world.two)
    await asyncio.sleep(0.01)
    await world.copy_out(world.one)
    await acl.SynchronizeStream(world.one)
    return in_turn(world.host.numpy()), await world.blocks()


async def copy_before_a_kernel_by_luck(world):
    """The kernel still runs when the copy reads."""
    await acl.LaunchKernel(three, 1, (world.device,), world.two)
    await world.copy_out(world.one)
    await acl.SynchronizeStream(world.one)
    return in_turn(world.host.numpy()), await world.blocks()


async def rows_and_a_copy_by_luck(world):
    """Rows of 64 bytes, 128 apart: blocks of the bytes between them stay as they are."""
    await acl.Memcpy2dAsync(world.device, 128, world.host, 128, 64, SIZE // 128, H2D, world.one)
    await asyncio.sleep(0.01)
    await world.copy_out(world.two)
    await acl.SynchronizeStream(world.two)
    blocks = world.host.numpy().reshape(-1, 4, 32)
    assert (blocks == blocks[0, :, :1]).all()
    return blocks[0, :, 0].tolist()


async def host_that_does_not_wait(world):
    await world.copy_out(world.one)
    await asyncio.sleep(0.01)
    early = in_turn(world.host.numpy())
    await acl.SynchronizeStream(world.one)
    return early, in_turn(world.host.numpy())


@acl.kernel(cost=acl.Cost(us=100))
def three(x: acl.Out):
    x[:] = 3


@pytest.mark.parametrize(
    ("program", "strong", "seen"),
    [
        (kernel_behind_a_copy_by_luck, (2, 2), (2, 1)),
        (copy_behind_a_kernel_by_luck, ((3, 3), (3, 3)), ((3, 0), (3, 3))),
        (copy_before_a_kernel_by_luck, ((0, 0), (3, 3)), ((3, 0), (3, 3))),
        (rows_and_a_copy_by_luck, [1, 1, 0, 0], [1, 0, 0, 0]),
        (host_that_does_not_wait, ((0, 0), (0, 0)), ((0, 1), (0, 0))),
    ],
)
def test_half_of_the_bytes_are_torn(program, strong, seen):
    assert torn(program) == (strong, seen)


def test_a_schedule_tears_a_weak_copy_in_halves():
    async def program():
        world = await World().begin()
        await world.copy_in(world.one)
        await asyncio.sleep(0.01)
        await world.copy_out(world.two)
        await acl.SynchronizeStream(world.two)
        return world.host.numpy().tolist()

    with following(Schedule(Replay(parse_schedule("effect@2=2")))):
        assert acl.run(program, device="tiny", effects="weak") == [1] * (SIZE // 2) + [0] * (SIZE // 2)


def test_what_is_promised_is_whole():
    for order in (by_event, by_host, by_query):
        assert torn(copy_and_kernel, order) == (2, 2)


def test_a_block_is_not_torn():
    async def program(world):
        word = world.device[64:96]
        await acl.MemcpyAsync(word, 32, world.host, 32, H2D, world.one)
        await asyncio.sleep(0.01)
        await acl.MemcpyAsync(world.host, SIZE, world.device, SIZE, D2H, world.two)
        await acl.SynchronizeStream(world.two)
        return sum(world.host.numpy().tolist())

    assert torn(program) == (32, 0)


def test_the_failure_of_a_torn_kernel_comes_at_its_end():
    async def program(world):
        with pytest.raises(acl.AclError, match="as planned"):
            await waits_for_the_copy_alone(world, broken)

    assert torn(program) == (None, None)


def test_memory_is_freed_while_a_torn_operation_is_on_its_way():
    async def program(world):
        await acl.LaunchKernel(three, 1, (world.device,), world.one)
        await world.copy_out(world.two)
        await acl.Free(world.device)
        await acl.SynchronizeDevice()
        return in_turn(world.host.numpy())

    assert torn(program) == ((0, 0), (3, 0))


def test_findings_are_told_only_if_they_are_asked_for(capsys):
    def found(**options):
        async def main():
            await copy_and_kernel(await World().begin(), by_nothing)
            return [str(finding.kind) for finding in acl.current_simulation().findings]

        return acl.run(main, device="tiny", effects="weak", **options)

    assert found() == []
    assert capsys.readouterr() == ("", "")
    assert found(sanitize="device") == ["race"]


RACY = """\
import acl_py as acl

@acl.kernel(cost=acl.Cost(us=100))
def double(x: acl.InOut):
    x *= 2

async def main():
    device, host = await acl.Malloc(1000), await acl.MallocHost(1000)
    host.numpy()[:] = 21
    copies, work = await acl.CreateStream(), await acl.CreateStream()
    await acl.MemcpyAsync(device, 1000, host, 1000, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await double[1, work](device)
    await acl.SynchronizeDevice()
    await acl.Memcpy(host, 1000, device, 1000, acl.MemcpyKind.DEVICE_TO_HOST)
    assert (host.numpy() == 42).all()
"""
DROP_IN = """\
import acl, numpy as np
device = acl.rt.set_device(0) or acl.rt.malloc(1000, 0)[0]
host, back = acl.rt.malloc_host(1000)[0], acl.rt.malloc_host(1000)[0]
ones, answer = acl.util.ptr_to_numpy(host, (1000,), 2), acl.util.ptr_to_numpy(back, (1000,), 2)
ones[:] = 1
acl.rt.memset(device, 1000, 0, 1000)
one, two = acl.rt.create_stream()[0], acl.rt.create_stream()[0]
acl.rt.memcpy_async(device, 1000, host, 1000, 1, one)
for _ in range(50):  # time passes
    acl.rt.synchronize_stream(two)
acl.rt.memcpy_async(back, 1000, device, 1000, 2, two)
acl.rt.synchronize_stream(two)
assert answer.all()
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("script", [f"{RACY}\nacl.run(main)", DROP_IN], ids=["acl_py", "acl"])
def test_scripts(tmp_path, script):
    (tmp_path / "script.py").write_text(script)

    def run(*words):
        return forks.run("-m", "acl_py", *words, "script.py", cwd=tmp_path)

    assert run("run").returncode == 0
    for effects in ("weak", "torn"):
        weak = run("run", "--effects", effects)
        assert weak.returncode == 1
        assert "AssertionError" in weak.stderr
    explored = run("explore", "--effects", "weak")
    assert explored.returncode == 2
    assert "fails under the default schedule" in explored.stderr


def test_stream_programs():
    program = parse(programs.program(3, "cuda"))
    assert replay(program, effects="weak").to_json() == replay(program).to_json()


def test_the_marker_of_tests(pytester):
    test = """
import pytest

def test_strong(acl_sim):
    acl_sim.run(main)

@pytest.mark.acl(effects="weak")
def test_weak(acl_sim):
    acl_sim.run(main)
"""
    pytester.makepyfile(test_project=RACY + test)
    done = forks.run_pytest(pytester, "-p", "acl_py_pytest", "-p", "no:asyncio")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["FAILED *test_weak*"])


def test_effects_that_there_are_not():
    with pytest.raises(ValueError, match="effects must be 'strong' or 'weak' or 'torn', not 'late'"):
        acl.run(World().begin, effects="late")


# --- core kernels: the whole launch

TILE = 256  # bytes, of halves


@asc.kernel
def add_tile(x: asc.In, y: asc.InOut):
    """Add the tile *x* to the tile *y*."""
    ours, theirs = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each, each.nbytes // 2) for each in (x, y))
    one, two = (asc.LocalTensor(asc.half, asc.TPosition.VECCALC, at, TILE // 2) for at in (0, TILE))
    asc.DataCopy(one, ours, TILE // 2)
    asc.DataCopy(two, theirs, TILE // 2)
    asc.SetFlag(asc.HardEvent.MTE2_V, 0)
    asc.WaitFlag(asc.HardEvent.MTE2_V, 0)
    asc.Add(two, one, two, TILE // 2)
    asc.SetFlag(asc.HardEvent.V_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
    asc.DataCopy(theirs, two, TILE // 2)


async def core_kernel(world, before, between, after):
    """Add tiles of 1s from the host to tiles of 0s, and return the sum that the host reads; streams come between."""
    half, streams, size = np.float16, (world.one, world.two), 32 << 20
    x, y, host = await acl.Malloc(size), await acl.Malloc(TILE), await acl.MallocHost(size)
    await acl.Memset(x, size, 0, size)
    await acl.Memset(y, TILE, 0, TILE)
    host.numpy(half)[:] = 1
    await acl.SynchronizeDevice()
    await acl.MemcpyAsync(x, size, host, size, H2D, streams[before])
    await asyncio.sleep(0.01 * between)
    await add_tile[1, world.two](acl.Array(x, half), acl.Array(y, half))
    await asyncio.sleep(0.01)
    await acl.MemcpyAsync(host, TILE, y, TILE, D2H, streams[after])
    await acl.SynchronizeStream(streams[after])
    return float(host.numpy(half)[0])


@pytest.mark.parametrize(
    ("before", "between", "after", "seen"),
    [(1, 1, 1, (1, 1)), (0, 1, 1, (1, 0)), (1, 1, 0, (1, 0)), (0, 0, 1, (0, 1))],
    ids=["in order", "reads too early", "is read too early", "reads before the copy that is on its way"],
)
def test_a_core_kernel_has_its_effect_as_a_whole(before, between, after, seen):
    assert both(core_kernel, before, between, after, device="ascend910b3") == seen


# --- random programs


def runs_of(seed, effects):
    """Whether random program number *seed* is racy, and whether *effects* change what is seen; None: it hangs."""
    rules = programs.RULES[seed % len(programs.RULES)]
    program = parse(programs.program(seed, rules))
    try:
        strong = see(program, rules, "strong")
    except DeadlockError:
        return None
    weak = see(program, rules, effects)
    assert (weak.times, weak.run) == (strong.times, strong.run), seed
    return is_racy(program, rules, strong.run), (weak.reads, weak.bytes) != (strong.reads, strong.bytes)


def compare(seeds, effects):
    """Check that *effects* change nothing in programs without a race, and return how many racy ones they change."""
    runs = {seed: runs_of(seed, effects) for seed in seeds}
    assert [seed for seed, run in runs.items() if run == (False, True)] == []
    changes = [is_changed for is_racy, is_changed in filter(None, runs.values()) if is_racy]
    return sum(changes) / len(changes)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("effects", "seeds", "share"), [("weak", range(60), 0.85), ("torn", range(60, 120), 0.7)])
def test_most_racy_programs_change_and_no_others(effects, seeds, share):
    assert compare(seeds, effects) > share


@pytest.mark.slow
@pytest.mark.parametrize(("effects", "share"), [("weak", 0.85), ("torn", 0.7)])
def test_most_of_many_racy_programs_change_and_no_others(effects, share):
    """Of 1,500 programs none without a race changed."""
    assert compare(range(120, 120 + many(250)), effects) > share
