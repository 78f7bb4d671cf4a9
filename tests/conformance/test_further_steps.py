"""The steps of the second generation of measured programs: what each does, and what a replay gives for it."""

import pytest
from criteria import measured, replayed, wrong_codes

from acl_py.programs.format import ProgramError, parse
from acl_py.programs.replay import replay

KIB, MIB = 1 << 10, 1 << 20
BUFFERS = {
    "d": {"space": "device", "bytes": MIB},
    "d2": {"space": "device", "bytes": MIB},
    "p": {"space": "pinned", "bytes": MIB},
    "g": {"space": "pageable", "bytes": MIB},
}


def document(*steps, **changes):
    base = {"id": "p", "buffers": BUFFERS, "streams": {"A": {}, "B": {}}, "events": {"e": {}}, "steps": list(steps)}
    return base | changes


def run(*steps, device="tiny", rules="cuda", **changes):
    return replay(parse(document(*steps, **changes)), device=device, rules=rules)


def costs(replayed):
    return [round(call.exit_us - call.enter_us, 3) for call in replayed.host]


def copy(op, **fields):
    return {"op": op, "dst": "d2", "src": "d", "bytes": 64 * KIB} | fields


def test_the_gaps_of_the_second_generation_are_understood():
    """Every program of it runs, and its calls return codes that the card gave."""
    wrong = {document["id"]: wrong_codes(document, replayed("gaps", document["id"])) for document in measured("gaps")}
    assert {id_: codes for id_, codes in wrong.items() if codes} == {}


def test_a_pitched_copy_moves_its_rows():
    rows = {"dpitch": 1024, "spitch": 512, "width": 500, "height": 8}
    replayed = run({"op": "memcpy2d_async", "id": "c", "dst": "d", "src": "p", **rows, "stream": "A"})
    assert replayed.host[0].ret == 0
    assert (replayed.device["c"].start_us, replayed.device["c"].end_us) == (0, 4)  # 4,000 bytes at 1 byte per ns
    wide = {"op": "memcpy2d_async", "dst": "d", "src": "p", **rows | {"width": 2000}, "stream": "A"}
    assert [call.ret for call in run(wide).host] == [12]


def test_peer_copies_of_a_device_to_itself_are_copies_inside_it():
    peer = run(copy("memcpy_peer_async", id="c", stream="A"), copy("memcpy_peer", id="s"), {"op": "sync_device"})
    own = run(copy("memcpy_async", id="c", stream="A"), copy("memcpy", id="s"), {"op": "sync_device"})
    assert peer.to_json() | {"id": ""} == own.to_json() | {"id": ""}
    assert run(copy("memcpy_peer", src="p")).host[0].ret == 21  # pinned memory is no peer's


def test_callbacks_take_their_turn_among_the_host_functions():
    steps = [
        {"op": "launch", "stream": "A", "us": 10},
        {"op": "host_func", "stream": "A", "us": 20},
        {"op": "add_callback", "stream": "A", "us": 30},
        {"op": "sync_device"},
    ]
    replayed = run(*steps)
    [[start, end, status]], [[next_start, next_end, next_status]] = (replayed.host[index].extra for index in (1, 2))
    assert (end - start, status) == (20, None)
    assert (next_start, next_status) == (end, 0)
    assert next_end - next_start == pytest.approx(30)


def test_the_host_reads_what_was_copied_and_counted():
    steps = [
        {"op": "host_write", "buf": "p", "value": 5},
        {"op": "memcpy_async", "dst": "d", "src": "p", "bytes": MIB, "stream": "A"},
        {"op": "inc", "id": "i", "buf": "d", "stream": "A"},
        {"op": "inc", "name": "d", "by": -8, "stream": "A"},
        {"op": "memcpy_async", "dst": "g", "src": "d", "bytes": MIB, "stream": "A"},
        {"op": "host_read", "buf": "g"},
        {"op": "host_func", "stream": "A", "us": 5, "buf": "g", "by": 40},
        {"op": "sync_device"},
        {"op": "host_read", "buf": "g"},
        {"op": "host_read", "buf": "p"},
    ]
    replayed = run(*steps)
    assert [call.ret for call in replayed.host] == [0] * len(steps)
    assert [replayed.host[index].extra for index in (5, 8, 9)] == [-2, 38, 5]


def test_an_int_that_is_counted_wraps_around():
    steps = [
        {"op": "host_write", "buf": "p", "value": 2**31 - 1},
        {"op": "inc", "buf": "p", "stream": "A"},
        {"op": "sync_device"},
        {"op": "host_read", "buf": "p"},
    ]
    assert run(*steps).host[3].extra == -(2**31)


def test_the_host_sees_an_unfinished_copy_only_when_it_is_over():
    """Copies to pinned memory go on while the host does."""
    steps = [
        {"op": "host_write", "buf": "p", "value": 1},
        {"op": "memset", "dst": "d", "bytes": MIB, "value": 0},
        {"op": "memcpy_async", "dst": "p", "src": "d", "bytes": MIB, "stream": "A"},
        {"op": "host_read", "buf": "p"},
        {"op": "sync_device"},
        {"op": "host_read", "buf": "p"},
    ]
    replayed = run(*steps)
    assert [replayed.host[index].extra for index in (3, 5)] == [1, 0]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([{"op": "host_read", "buf": "d"}], "step 0 (host_read): buf: 'd' is device memory"),
        ([{"op": "host_touch", "buf": "g", "bytes": MIB + 1}], f"'g' has {MIB} bytes, and the step touches {MIB + 1}"),
        (
            [
                {"op": "malloc_host", "name": "x", "bytes": 64},
                {"op": "free_host", "name": "x"},
                {"op": "host_write", "buf": "x", "value": 1},
            ],
            "step 2 (host_write): buf: 'x' was freed",
        ),
        (
            [{"op": "malloc", "name": "x", "bytes": 1 << 60}, {"op": "host_read", "buf": "x"}],
            "step 1 (host_read): buf: 'x' was never allocated",
        ),
    ],
)
def test_a_host_that_touches_what_is_not_its_own_ends_its_program(steps, problem):
    with pytest.raises(ProgramError) as caught:
        run(*steps)
    assert str(caught.value).startswith("program 'p': step ")
    assert problem in str(caught.value)
    assert str(caught.value).endswith("; the host would crash here")


def test_a_host_that_touches_pages_pays_for_each():
    few, many = costs(
        run({"op": "host_touch", "buf": "g", "bytes": 4096}, {"op": "host_touch", "buf": "g", "bytes": MIB})
    )
    assert many - few == pytest.approx(255 * 0.011)


def test_a_touch_takes_as_long_as_its_bytes():
    """On the H200: 4.8 TB/s in its own memory, both ways if it writes, and the bus for pinned memory."""
    steps = [
        {"op": "touch", "id": "read", "buf": "d", "bytes": 64 * MIB, "write": False, "stream": "A"},
        {"op": "touch", "id": "both", "buf": "d", "bytes": 64 * MIB, "stream": "A"},
        {"op": "touch", "id": "bus", "buf": "p", "bytes": 64 * MIB, "stream": "A"},
    ]
    buffers = {"d": {"space": "device", "bytes": 64 * MIB}, "p": {"space": "pinned", "bytes": 64 * MIB}}
    log = run(*steps, device="h200", buffers=buffers).log
    times = {id_: end - start for id_, [[start, end]] in log.items()}
    assert times == pytest.approx({"read": 13.98, "both": 27.96, "bus": 1213}, rel=0.01)


@pytest.mark.parametrize("step", [{"op": "touch", "bytes": MIB + 1, "buf": "d"}, {"op": "inc", "buf": "g"}])
def test_a_kernel_that_touches_what_it_cannot_reach_is_an_illegal_address(step):
    replayed = run(step | {"stream": "A"}, {"op": "sync_device"}, {"op": "get_last_error"})
    assert [call.ret for call in replayed.host] == [0, 700, 700]


def test_priorities_are_clamped_and_can_be_asked_for():
    steps = [
        {"op": "priority_range"},
        {"op": "create_stream", "name": "T", "priority": -99},
        {"op": "get_priority", "stream": "T"},
        {"op": "get_priority", "stream": "L"},
        {"op": "get_priority", "stream": "legacy"},
    ]
    streams = {"L": {"priority": 2**62}}
    assert [call.extra for call in run(*steps, streams=streams).host] == [[0, -5], None, -5, 0, 0]
    assert [call.extra for call in run(*steps[:4], streams=streams, rules="acl").host] == [[7, 0], None, 0, 7]


def test_a_pool_keeps_up_to_its_threshold():
    """It does not have to grow again; and an address is told from that of the program's first allocation."""
    again = [
        {"op": "malloc_async", "name": "x", "bytes": MIB, "stream": "A"},
        {"op": "free_async", "name": "x", "stream": "A"},
        {"op": "sync_stream", "stream": "A"},
    ]
    replayed = run(*again, *again, {"op": "pool_threshold", "bytes": 32 * MIB}, *again, *again, device="h200")
    grown = [costs(replayed)[index] > 50 for index in (0, 3, 7, 10)]
    assert grown == [True, True, True, False]
    assert replayed.host[10].extra == replayed.host[7].extra
    assert replayed.host[0].extra == 0


def test_a_host_that_sleeps_for_a_blocking_event_wakes_later():
    work = {"op": "launch", "stream": "A", "us": 50}
    steps = [work, {"op": "record", "event": "e", "stream": "A"}, {"op": "sync_event", "event": "e"}]
    steps.append({"op": "sync_event", "event": "e"})  # nothing to wait for: nobody sleeps
    spinning = costs(run(*steps))
    sleeping = costs(run(*steps, events={"e": {"blocking": True}}))
    made = [{"op": "create_event", "event": "e", "blocking": True}, *steps]
    assert [b - a for a, b in zip(spinning, sleeping, strict=True)] == pytest.approx([0, 0, 20, 0])
    assert costs(run(*made, events={}))[1:] == sleeping


def test_a_thread_makes_calls_while_the_main_one_waits():
    """It has a last error and a per-thread default stream of its own, and the hand-over takes time both ways."""
    bad = {"op": "free", "name": "g"}
    steps = [
        bad | {"thread": "T"},
        {"op": "get_last_error"},
        {"op": "get_last_error", "thread": "U"},
        {"op": "get_last_error", "thread": "T"},
        {"op": "launch", "stream": "per_thread", "us": 1000, "thread": "T"},
        {"op": "query_stream", "stream": "per_thread"},
        {"op": "query_stream", "stream": "per_thread", "thread": "T"},
        {"op": "query_stream", "stream": "per_thread", "thread": "U"},
    ]
    replayed = run(*steps)
    assert [call.ret for call in replayed.host] == [1, 0, 0, 1, 0, 0, 600, 0]
    gaps = [b.enter_us - a.exit_us for a, b in zip(replayed.host, replayed.host[1:], strict=False)]
    assert gaps == pytest.approx([12.38, 12.38, 24.38, 24.38, 12.38, 12.38, 24.38])


def test_the_log_has_the_time_of_a_kernels_blocks():
    steps = [
        {"op": "launch", "stream": "B", "us": 5},
        {"op": "launch", "id": "k", "stream": "A", "us": 3000},
        {"op": "launch", "id": "waves", "stream": "A", "us": 100, "blocks": 264, "exclusive": True},
        {"op": "memset_async", "id": "f", "dst": "d", "bytes": MIB, "stream": "A"},
    ]
    replayed = run(*steps, device="h200")
    assert list(replayed.log) == ["k", "waves"]
    lengths = [end - start for [[start, end]] in replayed.log.values()]
    assert lengths == pytest.approx([3000, 200.15])  # the second wave begins when the first is over
    assert replayed.log["k"][0][0] > 5  # from the start of the first kernel, which has no name
    assert replayed.to_json()["log"] == replayed.log
