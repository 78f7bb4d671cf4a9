"""Copies between devices side by side: on two and four H200s, each row 256 MiB a copy, beside ours.

`python -m tests.conformance.test_links` prints the rows.
"""

import json
from itertools import permutations
from pathlib import Path
from statistics import median

import acl_py as acl

NBYTES = 256 << 20
PEERS = {
    int(part["gpus"]): part["peers"]
    for part in json.loads((Path(__file__).parent / "data" / "collectives.json").read_text(encoding="utf-8")).values()
    if isinstance(part, dict)
}


def pairs_of(row, devices):
    match row:
        case "ring":
            return [(rank, (rank + 1) % devices) for rank in range(devices)]
        case "both_ways_01":
            return [(0, 1), (1, 0)]
        case "two_pairs":
            return [(0, 1), (2, 3)]
        case "fan_out_0":
            return [(0, target) for target in range(1, devices)]
        case "fan_in_0":
            return [(source, 0) for source in range(1, devices)]
        case "all_to_all":
            return list(permutations(range(devices), 2))
    source, target = row.split("->")
    return [(int(source), int(target))]


ROWS = [
    (devices, row, values["us"])
    for devices, rows in PEERS.items()
    for row, values in [*rows["matrix"].items(), *((row, rows[row]) for row in rows if row != "matrix")]
]


def time_of(devices, row):
    """From the first call to the end of the last copy, in us."""

    async def main():
        streams, copies = {}, []
        for device in range(devices):
            await acl.SetDevice(device)
            for peer in range(devices):
                if peer != device:
                    await acl.DeviceEnablePeerAccess(peer)
        for source, target in pairs_of(row, devices):
            await acl.SetDevice(target)
            there = await acl.Malloc(NBYTES)
            await acl.SetDevice(source)
            streams[source, target] = await acl.CreateStream()
            copies.append((source, there, await acl.Malloc(NBYTES), streams[source, target]))
        begin = acl.current_simulation().now_ns
        for source, there, here, stream in copies:
            await acl.SetDevice(source)
            await acl.MemcpyAsync(there, NBYTES, here, NBYTES, acl.MemcpyKind.DEVICE_TO_DEVICE, stream)
        for source, target in streams:
            await acl.SetDevice(source)
            await acl.SynchronizeStream(streams[source, target])
        return (acl.current_simulation().now_ns - begin) / 1000

    return acl.run(main, device="h200")


def errors_of(rows):
    return [time_of(devices, row) / us - 1 for devices, row, us in rows]


def test_copies_side_by_side_take_as_long_as_on_the_card():
    errors = [abs(error) for error in errors_of(ROWS)]
    assert len(errors) == 22
    assert median(errors) <= 0.03
    assert max(errors) <= 0.10


if __name__ == "__main__":
    found = errors_of(ROWS)
    for (gpus, name, measured), off in zip(ROWS, found, strict=True):
        print(f"{gpus} devices  {name:12} {measured:7.1f} us, here {measured * (1 + off):7.1f}  {100 * off:+5.1f} %")
    sizes = [100 * abs(off) for off in found]
    print(f"{len(sizes)} rows: median {median(sizes):.1f} %, largest {max(sizes):.1f} %")
