"""What a call takes in a program that calls a kernel again and again, and waits once, for all calls.

The host makes the next call while the card works, so the slower of the two decides. Before the last kernel ends, the
program does not go on. That is a part of each call, too, and the larger the fewer calls there are.
"""

import acl_py
from device_model.profile import load

# As the measuring program of mhc_post has them (ops-transformer, test/perf_sweep.cpp).
WARM_UP, CALLS = 5, 20


def call_us(card: str, kernel_us: float, host_us: float, calls: int = CALLS) -> float:
    """Return the mean microseconds of *calls*, each of which takes the host *host_us* with the launch in it.

    Launch, gap between kernels and the end of the wait are those of the profile of *card*.
    """
    profile = load(card)
    around = profile.latency.block + profile.latency.kernel_drain  # which a kernel of AI cores has in its own time
    kernel = acl_py.kernel(_nothing, cost=acl_py.Cost(us=max(0.0, kernel_us - around / 1000)))
    before_us = max(0.0, host_us - profile.host.launch / 1000)

    async def call(stream: acl_py.Stream) -> None:
        await acl_py.HostWork(before_us)
        await acl_py.LaunchKernel(kernel, 1, (), stream)

    async def program() -> float:
        simulation, stream = acl_py.current_simulation(), await acl_py.CreateStream()
        for _ in range(WARM_UP):
            await call(stream)
        await acl_py.SynchronizeStream(stream)
        begin = simulation.now_ns
        for _ in range(calls):
            await call(stream)
        await acl_py.SynchronizeStream(stream)
        return (simulation.now_ns - begin) / 1000 / calls

    return acl_py.run(program, device=card)


def _nothing() -> None:
    pass
