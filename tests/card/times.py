"""When operations run, by the vendor's records and by pairs of events: the same program with each of them."""

import sys
from collections import defaultdict
from statistics import median

import acl_py
from acl_py.card.cuda import activities
from tests.card.kernels import SPIN

_ROUNDS = 30
_NBYTES = 1 << 20
_ANY = acl_py.MemcpyKind.DEFAULT


async def _program() -> dict[str, list[int]]:
    spin = (await acl_py.ptx.load(SPIN))["spin"]
    stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(_NBYTES)
    pinned = await acl_py.MallocHost(_NBYTES)
    for _ in range(_ROUNDS):
        await acl_py.MemcpyAsync(buffer, _NBYTES, pinned, _NBYTES, _ANY, stream)
        await acl_py.MemsetAsync(buffer, _NBYTES, 0, _NBYTES, stream)
        await (await spin[1, 32, stream](200_000))
    taken, ops = defaultdict(list), acl_py.current_simulation().trace.timeline().ops
    print(f"{sum(op.start_ns < op.called_ns for op in ops)} of {len(ops)} operations begin before their calls")
    for op in ops:
        taken[op.name].append(op.end_ns - op.start_ns)
    return taken


def times() -> None:
    """Print what each kind of operation takes by both."""
    sys.modules["cupti.cupti"] = None  # type: ignore[assignment]
    runs = {"events": acl_py.run(_program, device="cuda:0")}
    del sys.modules["cupti.cupti"]
    runs["records"] = acl_py.run(_program, device="cuda:0")
    records = activities.activities()
    if records is None:
        print("the package cupti-python is not installed, or does not work with this driver")
        return
    print(f"the clocks of the card and of the host agree within {records.ahead_ns()[1]} ns")
    for name, by_records in runs["records"].items():
        with_records, with_events = (median(each) / 1000 for each in (by_records, runs["events"][name]))
        print(
            f"{name:6} {with_records:7.1f} us by records, {with_events:7.1f} by events, which add "
            f"{with_events - with_records:.1f}"
        )
