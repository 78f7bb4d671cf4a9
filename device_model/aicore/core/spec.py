"""What an AI core is, in numbers: sizes, rates and costs, from the `[aicore]` table of a profile."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from device_model.aicore.core.names import CoreType, Space
from device_model.amounts import Count, Few

# Start-up and cycles per repeat of 256 bytes, without bank conflicts (measured on a 910B3 by PTO's authors; those of
# AddScalar and other unmeasured ones follow the theory of elements per cycle).
_VECTOR: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "default": (25, 1), "Add": (24, 1), "Sub": (24, 1), "Mul": (25, 1), "Div": (31, 4), "Max": (23, 1),
        "Min": (23, 1), "And": (20, 1), "Or": (20, 1), "Not": (23, 1), "Adds": (26, 1), "Muls": (26, 1),
        "Maxs": (23, 1), "Mins": (23, 1), "Axpy": (26, 1), "Abs": (23, 1), "Exp": (31, 2), "Ln": (33, 2),
        "Sqrt": (39, 2), "Rsqrt": (24, 1), "Reciprocal": (24, 1), "Relu": (23, 1), "LeakyRelu": (26, 1),
        "Cast": (27, 1), "Duplicate": (24, 1), "Compare": (36, 2), "Compares": (36, 2), "Select": (27, 2),
        "ReduceSum": (46, 7), "ReduceMax": (46, 7), "ReduceMin": (46, 7), "WholeReduceSum": (46, 7),
        "WholeReduceMax": (31, 1), "WholeReduceMin": (31, 1), "BlockReduceSum": (38, 1), "BlockReduceMax": (31, 1),
        "BlockReduceMin": (31, 1), "PairReduceSum": (25, 1), "RepeatReduceSum": (46, 7), "Gather": (26, 46.6),
        "GatherMask": (25, 2), "Transpose": (25, 1), "Sort32": (21, 16), "MrgSort": (20, 78), "Brcb": (24, 1),
    }
)  # fmt: skip


_MMAD: Mapping[str, int] = MappingProxyType({"float16": 1, "bfloat16": 1, "int8": 1, "float32": 2})


@dataclass(frozen=True)
class CoreSpec:
    """The AI cores of a card. Cycles are core cycles; the source of each value stands in the profile."""

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
    hbm_gbps: Count  # what all cores together get
    hbm_l1_permille: int  # of the time that HBM needs to read a byte to UB, for one to L1
    l2_gbps: Count
    read_bytes_per_cycle: Count  # of one core, GM to UB, beyond the L2
    hit_read_gbps: Count  # of one core, from the L2
    write_bytes_per_cycle: Count
    l1_read_bytes_per_cycle: Count
    l1_read_gbps: Count
    l0c_write_gbps: Count
    request_bytes: Count
    l1_request_bytes: Count
    bypass_row_permille: int  # of the time, for rows shorter than a line that bypass the L2
    write_back_permille: int  # of the time that HBM needs to read a byte, for one that the L2 writes back
    write_back_bytes: int  # that wait for HBM to have time, at most
    same_lines_per_us: Count  # pieces of lines, of all cores that read or write the same ones
    queue_ns: int  # of latency more when HBM is fully loaded
    latency_spread_ns: int  # between the nearest and the farthest core
    read_latency_ns: int
    hit_latency_ns: int
    write_latency_ns: int
    copy_issue: int
    flag_issue: int
    flag_latency: int
    barrier_issue: int
    cross_core: int
    get_value: int
    set_value: int
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
        """Start-up and cycles per repeat of each vector instruction."""
        return _VECTOR

    @property
    def mmad_cycles(self) -> Mapping[str, int]:
        """Cycles per fractal, by dtype."""
        return _MMAD

    @cached_property
    def cores(self) -> Mapping[CoreType, int]:
        """How many cores of each type."""
        return {CoreType.AIC: self.cube_cores, CoreType.AIV: self.vector_cores}

    @cached_property
    def space_bytes(self) -> Mapping[Space, int]:
        """The size of each memory of a core."""
        return {
            Space.UB: self.ub_bytes, Space.L1: self.l1_bytes, Space.L0A: self.l0a_bytes, Space.L0B: self.l0b_bytes,
            Space.L0C: self.l0c_bytes, Space.BT: self.bt_bytes, Space.FB: self.fb_bytes,
        }  # fmt: skip

    @cached_property
    def local_copy_bytes_per_cycle(self) -> Mapping[Any, int]:
        """Rates of the copies inside a core, by where from and where to."""
        return {
            (Space.UB, Space.UB): 256, (Space.L1, Space.L0A): 256, (Space.L1, Space.L0B): 128, (Space.L1, Space.BT): 32,
            (Space.L1, Space.FB): 32, (Space.L0C, Space.L1): 128,
        }  # fmt: skip

    @property
    def read_write_conflict(self) -> float:
        """Cycles per repeat that a read and a write of one bank cost."""
        return self.read_write_conflict_permille / 1000
