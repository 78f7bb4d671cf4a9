"""Shows: fault rules: how a program behaves when calls and operations fail, the same on every run.

Scenario: a job doubles numbers on the device, part by part, and handles failures. If there is no memory for two
buffers, it works with one. If work fails, or a part takes longer than a second, it resets the device and repeats that
part. One rule for each of these cases shows how the job reacts, and how long it takes. The last rule leaves one wrong
byte, which only a comparison of the results can find.
"""

import numpy as np

import acl_py
from acl_py import AclError, Array, Cost, InOut, Kind, MemcpyKind, faults

PARTS, NBYTES = 6, 1 << 20

DAYS = {
    "no fault": [],
    "the second Malloc finds no memory": [faults.out_of_memory(nth=2)],
    "the third kernel hits an ECC error": [faults.ecc_error(op="kernel", nth=3)],
    "the fourth upload hangs": [faults.hang(op="h2d", nth=4)],
    "the device is lost with the fifth kernel": [faults.lose_device(op="kernel", nth=5)],
    "uploads take twice as long": [faults.slow("H2D", 2)],
    "one download leaves a wrong byte": [faults.corrupt(op="d2h", nth=5)],
}


@acl_py.kernel(cost=Cost(us=40))
def double(x: InOut):
    x *= 2


class Lanes:
    """Two streams with a buffer each, or one if there is no memory for two."""

    async def open(self):
        self.lanes = []
        for _ in range(2):
            try:
                buffer = await acl_py.Malloc(NBYTES)
                self.lanes.append((await acl_py.CreateStream(), buffer))
            except AclError as error:
                if error.kind is not Kind.OUT_OF_MEMORY or not self.lanes:
                    raise
                print(f"  one buffer only: {error.what}")

    async def begin(self, number, part):
        stream, buffer = self.lanes[number % len(self.lanes)]
        await acl_py.MemcpyAsync(buffer, NBYTES, part, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
        await double[64, stream](Array(buffer, np.int32))
        return stream, buffer

    async def finish(self, stream, buffer, result):
        await acl_py.MemcpyAsync(result, NBYTES, buffer, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
        await acl_py.SynchronizeStreamWithTimeout(stream, 1000)


async def job(source, result):
    """Double all parts, two at a time; after a failure continue with the part that failed."""
    lanes, done = Lanes(), 0
    await lanes.open()
    while done < PARTS:
        try:
            count = min(len(lanes.lanes), PARTS - done)
            begun = [await lanes.begin(i, source[(done + i) * NBYTES : (done + i + 1) * NBYTES]) for i in range(count)]
            for stream, buffer in begun:
                await lanes.finish(stream, buffer, result[done * NBYTES : (done + 1) * NBYTES])
                done += 1
        except AclError as error:
            print(f"  part {done} again: {error.name}, {error.what.splitlines()[0]}")
            await acl_py.ResetDevice(0)
            await lanes.open()


async def day(rules):
    sim = acl_py.current_simulation()
    source, result = await acl_py.MallocHost(PARTS * NBYTES), await acl_py.MallocHost(PARTS * NBYTES)
    numbers = source.numpy(np.int32)
    numbers[:] = np.arange(numbers.size)
    begin = sim.now_ns
    guards = [sim.fault(rule) for rule in rules]
    await job(source, result)
    for guard in guards:
        guard.remove()
    wrong = np.count_nonzero(result.numpy(np.int32) != 2 * numbers)
    print(f"  {(sim.now_ns - begin) / 1000:,.0f} us; wrong numbers: {wrong}")


for title, rules in DAYS.items():
    print(title)
    acl_py.run(day, rules, device="h200")
