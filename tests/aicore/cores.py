"""What the tests of AI cores share: a launch on the cores of a card, and instructions of any pipe."""

from device_model.aicore.core.machine import running
from device_model.aicore.core.names import KernelType, Pipe
from device_model.aicore.core.program import Instruction, Kind
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.runner import run

# The cores of an Ascend 910B1: 24 AIC, 48 AIV at 1.85 GHz.
SPEC = CoreSpec(
    mhz=1850, cube_cores=24, vector_cores=48, ub_bytes=196608, l1_bytes=524288, l0a_bytes=65536, l0b_bytes=65536,
    l0c_bytes=131072, bt_bytes=1024, fb_bytes=7168, l2_bytes=201326592, hbm_gbps=1490, hbm_l1_permille=1058,
    hbm_short_permille=1330, l2_gbps=5200, read_bytes_per_cycle=64, hit_read_gbps=204, write_bytes_per_cycle=86,
    l1_read_bytes_per_cycle=100, l1_read_gbps=204, l1_rows_read_gbps=90, l1_rows_shared_read_gbps=105,
    l1_shared_read_gbps=160, l0c_write_gbps=135, request_bytes=128, l1_request_bytes=256, bypass_row_permille=1450,
    write_back_permille=1800, write_back_bytes=1048576, same_lines_per_us=4200, queue_ns=100, latency_spread_ns=8,
    read_latency_ns=220, hit_latency_ns=115, write_latency_ns=110, copy_issue=20, flag_issue=1, flag_latency=10,
    barrier_issue=1, cross_core=1000, server_ns=1000, get_value=11, set_value=11, alloc_tensor=10, free_tensor=5,
    enque=5, deque=5, init_buffer=100,
    system_cycle_ns=150,
    matmul_init=3800, partial_repeat=16, read_write_conflict_permille=790, mmad_startup=14, load_issue=20,
    schedule_ns=150, init_ns=50, soft_init_ns=1000, start_interval_ns=70, next_block_ns=200, report_ns=500,
)  # fmt: skip


def launch(kernel, *args, blocks=1, kind=KernelType.AIV_ONLY, spec=SPEC, **options):
    """Run a kernel; every instruction must have got its time, and no wait may end before what it waits for."""
    result = run(kernel, blocks, args, spec, kind=kind, **options)
    for program in result.programs if options.get("timing", True) else ():
        for each in program.instructions:
            assert each.end >= max([each.start, *(setter.end for setter in each.waits)])
    return result


def names(result, core=0):
    """The names of the instructions of a core, in the order in which it issued them."""
    return [each.name for each in result.programs[core].instructions]


def found(result):
    """Rules and what was missing, of each finding."""
    return [(finding.rule.name, finding.missing) for finding in result.findings]


def prewritten(tensor):
    """Let *tensor* be written before all else that the kernel does; return it."""
    core, site = running(), running().site()
    before = Instruction(core.index, Pipe.S, Kind.WORK, "prewritten", 0, 0, 0, None, (), site.code, site.lasti)
    tensor.memory.shadow.write(core, before, core.clocks[Pipe.S], *tensor.span[1:])
    return tensor


def work(pipe, name, dst, *srcs, how=lambda first, *_: first):
    """An instruction of any pipe, for what matters is only what it reads and writes: dst = how(*srcs)."""

    def compute():
        if dst is not None and srcs:
            dst.view[:] = how(*(src.view for src in srcs))

    reads = [src.span for src in srcs]
    running().issue(pipe, name, 0, 1, reads, [dst.span] if dst is not None else [], compute)


def vector(how, dst, *srcs):
    work(Pipe.V, how.__name__, dst, *srcs, how=how)
