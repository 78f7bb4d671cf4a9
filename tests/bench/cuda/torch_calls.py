"""Prints what calls of torch hold the host for, in microseconds: the constants of samples/attention/stages.py.

python torch_calls.py, on a machine with an NVIDIA card and torch. Each line is the median of nine runs of 50 calls on
tensors so small that the device is never the bottleneck.
"""

import statistics
import time

import torch

CALLS, RUNS = 50, 9


def host_us(call):
    """What *call* holds the host for."""
    times = []
    for _ in range(RUNS + 1):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begin) / CALLS * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times[1:])


def calls():
    """The calls by their names."""
    x, y, out = (torch.randn(64, 64, device="cuda") for _ in range(3))
    a, b, into = (torch.randn(8, 16, 16, device="cuda") for _ in range(3))
    together, part = torch.empty(16, 96, device="cuda"), torch.empty(2, 4, 8, 8, device="cuda")
    pinned = torch.empty(64, 64).pin_memory()
    parts = together.view(2, 8, 3, 4, 8).permute(2, 0, 3, 1, 4)
    stream, event = torch.cuda.Stream(), torch.cuda.Event()

    def switch():
        with torch.cuda.stream(stream):
            pass

    return {
        "mm": lambda: torch.mm(x, y, out=out),
        "bmm": lambda: torch.bmm(a, b, out=into),
        "baddbmm, one view": lambda: torch.baddbmm(a[0], a, b.transpose(1, 2), alpha=0.3, out=into),
        "softmax": lambda: torch.softmax(a, -1, out=into),
        "add": lambda: torch.add(x, y, out=out),
        "copy_ into another order, one view": lambda: part.copy_(parts[0]),
        "copy_ from pinned memory": lambda: x.copy_(pinned, non_blocking=True),
        "a slice": lambda: x[3:9],
        "two views": lambda: together.view(2, 8, 3, 4, 8).permute(2, 0, 3, 1, 4),
        "another stream": switch,
        "record": lambda: event.record(stream),
        "wait_event": lambda: stream.wait_event(event),
    }


if __name__ == "__main__":
    for name, call in calls().items():
        print(f"{name:36} {host_us(call):6.2f}")
