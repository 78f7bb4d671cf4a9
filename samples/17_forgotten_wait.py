"""Shows: a forgotten wait for an asynchronous copy, the finding with both lines and the missing call, and its repair.

Scenario: a block copies numbers into shared memory and reads them in reverse order, so that each thread reads a number
that another one has copied. That needs two calls. `wait_group` waits for the copies of the thread itself, and
`syncthreads` shows them to the other threads. On a card the results may be right without them, if the copies happen to
be fast enough; here they always are. The check for hazards does not look at times or results. It reports both versions
that lack a call, with the two lines and the missing call. In the third one both calls are there.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, cta

N = 128


@cta.kernel(threads=N)
def reverse(x: cta.In, y: cta.Out, waits: bool, shows: bool):
    s, t = cta.shared(np.float32, N, "tile"), cta.tid
    cta.cp_async(s.at[t], x.at[t], 4)
    cta.commit_group()
    if waits:
        cta.wait_group(0)
    if shows:
        cta.syncthreads()
    y[t] = s[N - 1 - t]
    cta.wait_all()  # a thread may not end before its copies


async def main():
    values = np.arange(N, dtype=np.float32)
    result = np.empty_like(values)
    x, y = [Array(await acl.Malloc(values.nbytes), np.float32) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for waits, shows in ((False, True), (True, False), (True, True)):
        launch = await reverse[1](x, y, waits, shows)
        await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
        is_right, findings = np.array_equal(result, values[::-1]), len(launch.work.result.findings)
        print(f"wait_group: {waits}, syncthreads: {shows}; right: {is_right}, findings {findings}\n")


acl.run(main, device="h200")
