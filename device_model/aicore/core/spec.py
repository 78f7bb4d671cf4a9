"""The numbers of an AI core: sizes, rates and costs, from the `[aicore]` table of a profile.

Rates of memory shared by all cores are in GB/s, since they do not follow the clock of the cores. Rates of a core are in
bytes per cycle, and costs in cycles, where they do. Fields that end in `_ns` are times, those that end in `_permille`
are thousandths. A profile (`device_model/profiles`) gives the source of each value.
"""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from device_model.aicore.core.names import CoreType, Space
from device_model.frozen import Frozen
from device_model.kernel.ranges import Count, Few

CMP_MASK_BYTES = 16  # a bit for each half of a repeat

# Start-up cycles, and cycles per repeat of 256 bytes without bank conflicts. Measured on a 910B3 by PTO's authors.
# AddScalar, Compare, Select and others that were not measured follow the theoretical number of elements per cycle.
# TransDataTo5HD, whose repeat has 512 bytes, is assumed to take what Transpose takes for as many.
_VECTOR: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "default": (25, 1), "Add": (24, 1), "Sub": (24, 1), "Mul": (25, 1), "Div": (31, 4), "Max": (23, 1),
        "Min": (23, 1), "And": (20, 1), "Or": (20, 1), "Not": (23, 1), "Adds": (26, 1), "Muls": (26, 1),
        "Maxs": (23, 1), "Mins": (23, 1), "Axpy": (26, 1), "Abs": (23, 1), "Exp": (31, 2), "Ln": (33, 2),
        "Sqrt": (39, 2), "Rsqrt": (24, 1), "Reciprocal": (24, 1), "Relu": (23, 1), "LeakyRelu": (26, 1),
        "Cast": (27, 1), "Duplicate": (24, 1), "Compare": (36, 1), "Compares": (36, 1), "Select": (27, 1),
        "ReduceSum": (46, 7), "ReduceMax": (46, 7), "ReduceMin": (46, 7), "WholeReduceSum": (46, 7),
        "WholeReduceMax": (31, 1), "WholeReduceMin": (31, 1), "BlockReduceSum": (38, 1), "BlockReduceMax": (31, 1),
        "BlockReduceMin": (31, 1), "PairReduceSum": (25, 1), "RepeatReduceSum": (46, 7), "Gather": (26, 46.6),
        "GatherMask": (25, 2), "Transpose": (25, 1), "Sort32": (21, 16), "MrgSort": (20, 78), "Brcb": (24, 1),
        "TransDataTo5HD": (25, 2),
    }
)  # fmt: skip


_MMAD: Mapping[str, int] = MappingProxyType({"float16": 1, "bfloat16": 1, "int8": 1, "int4": 1, "float32": 2})


class CoreSpec(Frozen):
    """The AI cores of a card. Cycles are cycles of a core; the profile gives the source of each value."""

    mhz: Count
    cube_cores: Few
    vector_cores: Few
    ub_bytes: Count
    l1_bytes: Count
    l0a_bytes: Count
    l0b_bytes: Count
    l0c_bytes: Count
    bt_bytes: Count
    fb_bytes: Count
    l2_bytes: Count
    hbm_gbps: Count  # of all cores together
    hbm_l1_permille: int  # time of HBM to read a byte to L1, relative to a byte to UB
    hbm_short_permille: int  # the same in rows that are shorter than a request, relative to long rows
    l2_gbps: Count  # of all cores together
    read_bytes_per_cycle: Count  # of one core, GM to UB, from HBM
    hit_read_gbps: Count  # of one core, GM to UB, from the L2
    write_bytes_per_cycle: Count  # of one core
    l1_read_bytes_per_cycle: Count
    l1_read_gbps: Count
    l1_rows_read_gbps: Count  # of one core, of rows of a matrix from HBM that become fractals
    l1_rows_shared_read_gbps: Count  # the same at lines at which several cores begin
    l1_shared_read_gbps: Count  # of one core, of lines of the L2 at which several cores begin
    l0c_write_gbps: Count
    request_bytes: Count  # smallest transfer between GM and UB
    l1_request_bytes: Count  # smallest transfer from GM to L1
    bypass_row_permille: int  # relative time of rows that are shorter than a line and bypass the L2
    write_back_permille: int  # time of HBM for a byte that the L2 writes back, relative to a byte read
    write_back_bytes: int  # size of the buffer for evicted bytes that HBM has not written yet
    same_lines_per_us: Count  # pieces that all cores at the same lines get together
    queue_ns: int  # latency added when HBM is fully loaded
    latency_spread_ns: int  # difference between the nearest and the farthest core
    read_latency_ns: int
    hit_latency_ns: int
    write_latency_ns: int
    copy_issue: int
    flag_issue: int
    flag_latency: int
    barrier_issue: int
    cross_core: int
    server_ns: int  # a message from a core to the AI CPU, or back
    get_value: int
    set_value: int
    system_cycle_ns: int
    alloc_tensor: int
    free_tensor: int
    enque: int
    deque: int
    init_buffer: int
    matmul_init: int
    partial_repeat: int
    read_write_conflict_permille: int
    mmad_startup: int
    load_issue: int
    schedule_ns: int
    init_ns: int
    soft_init_ns: int
    start_interval_ns: int  # between the starts of two cores
    next_block_ns: int
    report_ns: int

    @property
    def vector(self) -> Mapping[str, tuple[float, float]]:
        """Start-up cycles and cycles per repeat of each vector instruction, by name."""
        return _VECTOR

    @property
    def mmad_cycles(self) -> Mapping[str, int]:
        """Cycles per fractal, by dtype."""
        return _MMAD

    @cached_property
    def cores(self) -> Mapping[CoreType, int]:
        """The number of cores of each type."""
        return {CoreType.AIC: self.cube_cores, CoreType.AIV: self.vector_cores}

    @cached_property
    def space_bytes(self) -> Mapping[Space, int]:
        """The size of each memory of a core, in bytes."""
        return {
            Space.UB: self.ub_bytes, Space.L1: self.l1_bytes, Space.L0A: self.l0a_bytes, Space.L0B: self.l0b_bytes,
            Space.L0C: self.l0c_bytes, Space.BT: self.bt_bytes, Space.FB: self.fb_bytes,
            Space.CMP_MASK: CMP_MASK_BYTES,
        }  # fmt: skip

    @cached_property
    def local_copy_bytes_per_cycle(self) -> Mapping[Any, int]:
        """Rates of the copies inside a core, by (source, destination)."""
        return {
            (Space.UB, Space.UB): 32, (Space.L1, Space.L0A): 256, (Space.L1, Space.L0B): 128, (Space.L1, Space.BT): 32,
            (Space.L1, Space.FB): 32, (Space.L0C, Space.L1): 128,
        }  # fmt: skip

    @property
    def read_write_conflict(self) -> float:
        """Cycles that a repeat loses when one of its reads and its write meet in a bank."""
        return self.read_write_conflict_permille / 1000
