"""Bytecodes of CPython for each operation: no machine, and no load on it, changes them.

All instructions that the interpreter executes are counted, those of the program, of asyncio and of NumPy's Python code
too, over two lengths of the same program. What the longer one takes more, divided by its further operations, is what
one costs: the beginning and the end are in both. CPython 3.11 only: later versions do not report each instruction to a
tracer.
"""

import sys

import acl_py
from tests.bench import dispatch
from tests.bench.measure import say, show
from tests.bench.ring import ours, rounds_of

STREAMS = 8
ROUNDS = 20, 60  # the two lengths of the ring
LAUNCHES = 2, 6  # and of the graphs, which have NODES each
PYTHON = (3, 11)
LIMIT = 955  # for an operation of the ring, on that Python


def main():
    if sys.implementation.name != "cpython" or sys.version_info[:2] != PYTHON:
        say("  bytecodes are counted on CPython 3.11 only: later versions do not report each of them\n")
        return
    ring = {
        "the ring": ring_count(trace=False),
        "the ring, traced": ring_count(trace=True),
        "the ring, sanitized": ring_count(trace=False, sanitize="device"),
    }
    graphs = {"a node of a graph": graph_count(trace=False), "a node of a graph, traced": graph_count(trace=True)}
    rows = [(name, f"{count:,.1f}") for name, count in (ring | graphs).items()]
    show(f"Bytecodes of {sys.implementation.name} {sys.version.split()[0]}", ("", "per operation"), rows)
    count = ring["the ring"]
    is_met = count <= LIMIT
    say(f"  the ring  {count:.0f} (target: at most {LIMIT}, {'met' if is_met else 'MISSED'})\n")
    if not is_met:
        sys.exit(f"an operation takes {count:.0f} bytecodes, more than {LIMIT}")


def ring_count(**options):
    """The bytecodes of an operation of the ring, with these options of a simulation."""
    ops = [3 * STREAMS * rounds for rounds in ROUNDS]
    assert [rounds_of(each, STREAMS) for each in ops] == [*ROUNDS]
    return per_operation(lambda number: acl_py.run(ours, number, STREAMS, 1, workers=1, **options), *ops)


def graph_count(**options):
    """The bytecodes of a node of a graph."""
    return (
        per_operation(lambda launches: acl_py.run(dispatch.launches, launches, **options), *LAUNCHES) / dispatch.NODES
    )


def per_operation(program, few, many):
    """What `program(many)` executes more than `program(few)`, for each of `many - few`."""
    program(few)  # what a process does once is not counted
    return (bytecodes(program, many) - bytecodes(program, few)) / (many - few)


def bytecodes(program, *arguments):
    """How many bytecodes the call of *program* executes in this thread."""
    number = 0

    def trace(frame, event, _):
        nonlocal number
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        number += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        program(*arguments)
    finally:
        sys.settrace(before)
    return number
