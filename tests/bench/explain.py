"""What explanations cost: processor seconds for a recording of 100,000 operations in 8 streams."""

from time import process_time

import acl_py
from acl_py.causes.relation import Relation
from acl_py.explain import by_line, critical_path, findings
from tests.bench.measure import show, target

OPS, STREAMS, SIZE = 100_000, 8, 4096
LIMIT = 5  # seconds for all of it


@acl_py.kernel(cost=acl_py.Cost(us=5))
def compute(x: acl_py.InOut) -> None:
    pass


async def _program():
    """Copies and kernels in turn, with an event from each stream to the next one."""
    host = await acl_py.MallocHost(SIZE)
    ways = [
        (await acl_py.CreateStream(), await acl_py.CreateEvent(), await acl_py.Malloc(SIZE)) for _ in range(STREAMS)
    ]
    for _ in range(OPS // (3 * STREAMS)):
        for stream, event, device in ways:
            await acl_py.MemcpyAsync(device, SIZE, host, SIZE, acl_py.MemcpyKind.HOST_TO_DEVICE, stream)
            await compute[1, stream](acl_py.Array(device, "uint8"))
            await acl_py.RecordEvent(event, stream)
            await acl_py.MemcpyAsync(host, SIZE, device, SIZE, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
        for (_, event, _), (stream, _, _) in zip(ways, [*ways[1:], ways[0]], strict=True):
            await acl_py.StreamWaitEvent(stream, event)
    await acl_py.SynchronizeDevice()
    return acl_py.current_simulation().trace


def main():
    trace = acl_py.run(_program, device="h200")
    timeline, read = _timed(trace.timeline)
    path, found = _timed(critical_path, timeline)
    _, lines = _timed(by_line, timeline, path)
    _, waits = _timed(findings, timeline)
    _, order = _timed(Relation, timeline)
    rows = [
        ("the rows of the recording", f"{read:.2f}"),
        ("critical path", f"{found:.2f}"),
        ("slack, and the path by line", f"{lines:.2f}"),
        ("findings", f"{waits:.2f}"),
        ("the order of all operations", f"{order:.2f}"),
        ("path, lines and findings", target(found + lines + waits, LIMIT)),
    ]
    show(f"Explaining {len(timeline.ops):,} operations", ("what", "seconds"), rows)


def _timed(function, *args):
    begin = process_time()
    result = function(*args)
    return result, process_time() - begin


if __name__ == "__main__":
    main()
