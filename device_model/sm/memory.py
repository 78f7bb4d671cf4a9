"""The memory as one SM sees it: when the bytes of a request arrive.

A request for sectors that the L2 has takes the latency of the L2, and longer if more bytes are on their way to the SM
than the path to it carries. What the L2 lacks comes from DRAM, which all SMs share. There are three parts to it:

* Latencies differ from request to request, because banks, pages and distances do: they are exponentially distributed
  above a least value, and spread twice as far when DRAM is fully used. A warp waits for the slowest of its requests.
  The quantiles are multiples of the golden ratio: they are spread evenly, and are the same in every run.
* While DRAM is busy, requests queue. The SM knows its own outstanding bytes, and assumes as many of each of the others.
  A part of them is in the queue, in proportion to how busy DRAM is.
* In the long run, the SM gets its share of the bandwidth and no more. It may catch up on what it left unused during one
  latency.
"""

from heapq import heappop, heappush
from math import log

from device_model.sm.instructions import SECTOR
from device_model.sm.spec import SmSpec

_GOLDEN = 0.6180339887498949


class SmMemory:
    """The L2 and DRAM, used by *sharers* SMs that do the same."""

    __slots__ = (
        "_bytes",
        "_dram",
        "_free",
        "_l2",
        "_outstanding",
        "_path",
        "_path_free",
        "_pending",
        "_queue",
        "_requests",
        "_share",
        "_spread",
    )

    def __init__(self, spec: SmSpec, sharers: int) -> None:
        self._l2 = spec.l2_permille / 1000
        self._dram = spec.dram_permille / 1000
        self._path = spec.sm_bytes_permille / 1000
        self._share = spec.dram_bytes_permille / 1000 / sharers
        self._spread = spec.dram_spread
        self._queue = spec.dram_queue_permille / 1000
        self._path_free = 0.0  # when all bytes asked for so far have passed the path to the SM
        self._free = 0.0  # when DRAM has read all that was asked for, at the share of the SM
        self._bytes = 0.0  # from DRAM, so far
        self._requests = 0
        self._outstanding = 0.0
        self._pending: list[tuple[float, float]] = []  # when which outstanding bytes arrive

    def request(self, now: float, sectors: float, misses: float) -> float:
        """Return when the last of *sectors* arrives, of which the L2 lacks *misses*."""
        start = self._path_free if self._path_free > now else now
        self._path_free = start + sectors * SECTOR / self._path
        arrival = start + self._l2
        return max(arrival, self._from_dram(now, misses * SECTOR)) if misses else arrival

    def _from_dram(self, now: float, nbytes: float) -> float:
        pending = self._pending
        while pending and pending[0][0] <= now:
            self._outstanding -= heappop(pending)[1]
        busy = min(1.0, self._bytes / (self._share * (now + self._dram)))
        self._outstanding += nbytes
        self._bytes += nbytes
        self._requests += 1
        quantile = self._requests * _GOLDEN % 1
        spread = self._spread * (-log(1 - quantile) * (1 + busy) - 1)
        latency = self._dram + spread + self._queue * busy * self._outstanding / self._share
        self._free = max(self._free, now - self._dram) + nbytes / self._share
        arrival = max(now + latency, self._free)
        heappush(pending, (arrival, nbytes))
        return arrival
