"""The gaps between operations: how long after a completion an operation that waited for it can start."""

from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.work import Lane

if TYPE_CHECKING:
    from device_model.profile import DeviceProfile, Latencies

Gaps = tuple[Nanoseconds, ...]  # by the lane of the completion before


def _behind(latency: "Latencies", lane: Lane, own: Nanoseconds) -> Gaps:
    """Return how long after a completion of each lane an operation of *lane* can start; *own* after one of its own."""
    host_end = latency.host_function_end
    return tuple(host_end if by is Lane.HOST else own if by is lane else latency.engines for by in Lane)


def gaps_of(latency: "Latencies") -> dict[Lane, tuple[Gaps, Gaps]]:
    """Return, for each lane, how long after a completion an operation there can start, by the lane of the completion.

    The first tuple is for a completion in the same stream, the second for one in another stream.
    """
    gaps = {lane: (_behind(latency, lane, 0),) * 2 for lane in Lane}  # copy engines keep the gap between two copies
    kernels = latency.kernel_same_stream, latency.kernel_other_stream
    gaps[Lane.COMPUTE] = _behind(latency, Lane.COMPUTE, kernels[0]), _behind(latency, Lane.COMPUTE, kernels[1])
    gaps[Lane.HOST] = ((0,) * len(Lane),) * 2  # the thread knows how long it takes to wake up
    return gaps


def node_gaps_of(profile: "DeviceProfile", gaps: dict[Lane, tuple[Gaps, Gaps]]) -> dict[Lane, tuple[Gaps, ...]]:
    """Return *gaps* as they are between the nodes of a graph.

    Behind those of the lanes comes the gap behind the turn of a launch (graphs.executable.LaunchTurn).
    """
    graphs = profile.graphs
    kernels = (_behind(profile.latency, Lane.COMPUTE, graphs.node_gap),) * 2
    return {
        lane: tuple((*each, graphs.launch_gap) for each in both)
        for lane, both in (gaps | {Lane.COMPUTE: kernels}).items()
    }
