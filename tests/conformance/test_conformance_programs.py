"""The format of stream programs: what is refused, with which words, and what a replay gives."""

import json
from random import Random

import pytest
from criteria import measured

from acl_py.errors import DeadlockError
from acl_py.faults import hang
from acl_py.programs.format import OPS, Program, ProgramError, load, parse
from acl_py.programs.replay import replay
from device_model.errors import printable

LAUNCH = {"op": "launch", "stream": "A", "us": 10}


def document(*steps, **changes):
    base = {
        "id": "p",
        "buffers": {"d": {"space": "device", "bytes": 4096}, "h": {"space": "pinned", "bytes": 4096}},
        "streams": {"A": {}},
        "events": {"e": {}},
        "steps": list(steps),
    }
    return base | changes


def refusal(*steps, **changes):
    with pytest.raises(ProgramError) as caught:
        parse(document(*steps, **changes))
    return str(caught.value)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"op": "lunch"}, 'step 0: op: there is no "lunch"; did you mean launch?'),
        ({}, "step 0: op: missing"),
        (7, "step 0: must be an object, not 7"),
        ({"op": "launch", "stream": "A"}, "step 0 (launch): us: missing; it must be microseconds"),
        (
            LAUNCH | {"us": -1},
            "step 0 (launch): us: must be microseconds: a number from 0 to 4.6e15, all of simulated time, not -1",
        ),
        (
            LAUNCH | {"us": float("nan")},
            "us: must be microseconds: a number from 0 to 4.6e15, all of simulated time, not NaN",
        ),
        (LAUNCH | {"us": True}, "us: must be microseconds: a number from 0 to 4.6e15, all of simulated time, not true"),
        (LAUNCH | {"us": "10"}, 'us: must be microseconds: a number from 0 to 4.6e15, all of simulated time, not "10"'),
        (LAUNCH | {"blocks": 0}, "blocks: must be a number of blocks, 1 to 2**63 - 1, not 0"),
        (LAUNCH | {"exclusive": 1}, "exclusive: must be true or false, not 1"),
        (LAUNCH | {"stream": "B"}, "stream: there is no stream 'B'; there are legacy, per_thread, nodes, A"),
        (
            LAUNCH | {"id": ""},
            'step 0 (launch): id: must be a name of 1 to 200 characters without lone surrogates, not ""',
        ),
        (LAUNCH | {"color": "red"}, '"color" is unknown; there are stream, us, blocks, exclusive, name, reads, writes'),
        ({"op": "peek_error", "stream": "A"}, '"stream" is unknown; there are no fields'),
        ({"op": "record", "event": "f", "stream": "A"}, "event: there is no event 'f'"),
        ({"op": "memcpy", "dst": "d", "src": "x", "bytes": 1}, "src: there is no buffer 'x'; there are d, h"),
        (
            {"op": "memcpy", "dst": "d", "src": "h", "bytes": -1},
            "bytes: must be a number of bytes, 0 to 2**63 - 1, not -1",
        ),
        ({"op": "malloc", "name": "x", "bytes": 0}, "bytes: must be a number of bytes, 1 to 2**63 - 1, not 0"),
        ({"op": "free", "name": "x"}, "name: there is no buffer 'x'"),
        ({"op": "set_context", "context": "primary 0"}, "context: there is no context 'primary 0'; there are primary"),
        ({"op": "create_stream", "name": "T", "flags": "fast"}, 'flags: must be "blocking" or "nonblocking"'),
    ],
)
def test_a_wrong_step_is_named_with_its_field(step, message):
    refused = refusal(step)
    assert refused.startswith("program 'p': step 0")
    assert message in refused


def test_the_step_that_is_wrong_is_counted():
    assert refusal(LAUNCH, LAUNCH, LAUNCH | {"us": None}).startswith("program 'p': step 2 (launch): us: ")


def test_what_is_declared_is_checked():
    assert "streams.A: priority: must be a whole number" in refusal(streams={"A": {"priority": 0.5}})
    assert "streams.legacy: this stream always exists" in refusal(streams={"legacy": {}})
    assert "buffers.d: space: missing" in refusal(buffers={"d": {"bytes": 1}})
    assert 'buffers.d: space: must be "device"' in refusal(buffers={"d": {"space": "moon", "bytes": 1}})
    assert "events.e: timing: must be true or false" in refusal(events={"e": {"timing": "no"}})
    assert "events: e: must be an object, not true" in refusal(events={"e": True})
    assert "buffers: must be an object" in refusal(buffers=[])
    assert "steps: must be a list of steps" in refusal(steps={})


def test_ids_name_one_operation():
    assert "step 1: id: step 0 already has the id 'k'" in refusal(LAUNCH | {"id": "k"}, LAUNCH | {"id": "k"})


def test_names_made_by_a_call_can_be_used_behind_it():
    steps = [{"op": "malloc", "name": "x", "bytes": 64}, {"op": "free", "name": "x"}]
    assert [step.op for step in parse(document(*steps)).steps] == ["malloc", "free"]
    assert "there is no buffer 'x'" in refusal(*reversed(steps))


def test_only_the_programs_that_are_wrong_are_refused(tmp_path):
    file = tmp_path / "programs.json"
    file.write_text(json.dumps([document(LAUNCH), {"steps": []}, 3, document(id="q")]))
    first, second, third, fourth = load(file)
    assert isinstance(first, Program)
    assert str(second).startswith(f"{file}: program 1: id: missing; it must be a name of 1 to 200 characters ")
    assert str(third) == f"{file}: program 2: must be an object, not 3"
    assert isinstance(fourth, Program)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("3", "must have a program or a list of programs, not 3"), (None, "cannot be read")],
)
def test_a_file_without_programs_is_named(tmp_path, text, message):
    file = tmp_path / "programs.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ProgramError, match=message) as caught:
        load(file)
    assert str(caught.value).startswith(str(file))


def test_a_file_may_hold_one_program(tmp_path):
    file = tmp_path / "program.json"
    file.write_text(json.dumps(document(LAUNCH)))
    assert [program.id for program in load(file)] == ["p"]


def test_every_measured_program_is_understood():
    for name in ("semantics", "timelines", "sticky_error", "graphs"):
        for each in measured(name):
            for step in each["steps"]:
                fields = set(step) - {"op", "id", "thread"}
                if step["op"] == "inc":  # measured programs have both names for it
                    fields.discard("name")
                assert fields <= set(OPS[step["op"]])


def test_a_whole_replay_on_round_numbers():
    """On `tiny`: every call costs 1 us, copies run at 1 GB/s, nothing has latency."""
    steps = [
        {"op": "memcpy_async", "id": "in", "dst": "d", "src": "h", "bytes": 4000, "stream": "A"},
        {"op": "launch", "id": "k", "stream": "A", "us": 10},
        {"op": "query_stream", "stream": "A"},
        {"op": "sync_stream", "stream": "A"},
        {"op": "query_stream", "stream": "A"},
    ]
    run = replay(parse(document(*steps)), device="tiny")
    assert [call.ret for call in run.host] == [0, 0, 600, 0, 0]
    assert {id_: (time.start_us, time.end_us, time.engine) for id_, time in run.device.items()} == {
        "in": (0.0, 4.0, "H2D"),
        "k": (4.0, 14.0, "cores"),
    }
    assert run.host[0].enter_us == 0.38
    assert run.host[1].enter_us == pytest.approx(run.host[0].exit_us + 0.38)
    assert run.makespan_us > run.host[-1].exit_us


def test_streams_and_memory_have_the_names_of_the_program():
    """Also one whose characters are all escaped, which makes it longer than a name may be."""
    stream = "\x1b" * 200
    steps = [
        {"op": "launch", "stream": "A", "us": 10},
        {"op": "create_stream", "name": stream},
        {"op": "launch", "stream": stream, "us": 10},
        {"op": "sync_stream", "stream": "A"},
    ]
    with pytest.raises(DeadlockError) as caught:
        replay(parse(document(*steps)), device="tiny", faults=[hang(op="kernel", stream="A")])
    assert "SynchronizeStream(stream 'A')" in str(caught.value)
    assert " on stream 'A'" in caught.value.chain[0]
    trace = replay(parse(document(*steps)), device="tiny").trace
    escaped = printable(stream)[:200]
    assert [op.stream for op in trace.ops] == ["stream 'A'", f"stream {escaped!r}"]


def test_the_same_program_gives_the_same_times():
    program = parse(measured("timelines")[0])
    assert replay(program).to_json() == replay(program).to_json()


def test_a_copy_from_host_to_host_lasts_as_long_as_its_call():
    """So the card's trace shows it."""
    steps = [{"op": "memcpy_async", "id": "c", "dst": "h", "src": "g", "bytes": 4096, "stream": "A"}]
    buffers = {"h": {"space": "pinned", "bytes": 4096}, "g": {"space": "pageable", "bytes": 4096}}
    run = replay(parse(document(*steps, buffers=buffers)))
    [call] = run.host
    assert run.device["c"].engine == "host"
    assert run.device["c"].end_us == pytest.approx(call.exit_us - call.enter_us)


def test_a_copy_in_chunks_is_one_operation():
    mib = 1 << 20
    steps = [{"op": "memcpy_async", "id": "c", "dst": "d", "src": "g", "bytes": 4 * mib, "stream": "A"}]
    buffers = {"d": {"space": "device", "bytes": 4 * mib}, "g": {"space": "pageable", "bytes": 4 * mib}}
    run = replay(parse(document(*steps, buffers=buffers)))
    assert len(run.trace.ops) == 4
    assert run.device["c"].start_us == 0
    assert run.device["c"].end_us == (run.trace.ops[-1].end_ns - run.trace.ops[0].start_ns) / 1000


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"op": "memcpy", "dst": "d", "src": "h", "bytes": 8192}, 1),
        ({"op": "memcpy_async_bad", "dst_addr": 0, "src_addr": 0, "bytes": 4, "kind": 1, "stream": "A"}, 1),
        ({"op": "elapsed", "start": "e", "end": "e"}, 400),
    ],
)
def test_a_refused_call_gives_its_code_which_is_then_the_last_error(step, code):
    steps = [step, {"op": "peek_error"}, {"op": "get_last_error"}, {"op": "get_last_error"}]
    run = replay(parse(document(*steps)))
    assert [call.ret for call in run.host] == [code, code, code, 0]


def test_a_destroyed_stream_is_refused_by_the_runtime():
    steps = [{"op": "destroy_stream", "name": "A"}, LAUNCH]
    assert [call.ret for call in replay(parse(document(*steps))).host] == [0, 400]


BARRIER = {"kind": "Barrier", "stream": "legacy"}
REDUCE = {"kind": "AllReduce", "comm": "r", "stream": "A", "count": 16, "type": "int32", "reduction": "sum"}


def test_every_op_can_be_played():
    """All of the format, on one stream."""
    mib = 1 << 20
    copy = {"dst": "d", "src": "h", "bytes": 512, "dst_off": 128, "src_off": 64}
    rows = {"dpitch": 256, "spitch": 128, "width": 100, "height": 4}
    steps = [
        {"op": "create_stream", "name": "T", "flags": "nonblocking", "priority": -1},
        {"op": "create_event", "event": "f", "timing": False},
        {"op": "malloc", "name": "m", "bytes": mib},
        {"op": "malloc_host", "name": "mh", "bytes": mib},
        {"op": "host_register", "name": "r", "bytes": mib},
        {"op": "malloc_async", "name": "ma", "bytes": mib, "stream": "T"},
        {"op": "launch", "stream": "T", "us": 5, "blocks": 3, "exclusive": True},
        {"op": "memcpy_async", "id": "in", **copy, "stream": "T", "kind": "h2d"},
        {"op": "sync_op", "of": "in"},
        {"op": "memcpy", **copy},
        {"op": "memcpy2d_async", "dst": "d", "src": "h", **rows, "stream": "T"},
        {"op": "memcpy2d", "dst": "d", "src": "h", **rows, "dst_off": 64, "kind": "h2d"},
        {"op": "memcpy_peer_async", "dst": "d", "src": "m", "bytes": 64, "stream": "T"},
        {"op": "memcpy_peer", "dst": "d", "src": "m", "bytes": 64},
        {"op": "memset_async", "dst": "m", "bytes": mib, "value": 7, "stream": "legacy"},
        {"op": "memset", "dst": "m", "bytes": mib},
        {"op": "host_func", "stream": "per_thread", "us": 5},
        {"op": "add_callback", "stream": "A", "us": 5},
        {"op": "malloc_managed", "name": "mm", "bytes": 8192},
        {"op": "advise", "buf": "mm", "bytes": 8192, "advice": "SetReadMostly"},
        {"op": "prefetch", "buf": "mm", "bytes": 8192, "to": "device", "stream": "T"},
        {"op": "attach", "buf": "mm", "stream": "T", "to": "single"},
        {"op": "pointer_attributes", "buf": "mm"},
        {"op": "range_attribute", "buf": "mm", "bytes": 8192, "attribute": "LastPrefetchLocation"},
        {"op": "host_work", "us": 5},
        {"op": "sleep", "us": 5},
        {"op": "resume"},
        {"op": "give_way"},
        {"op": "host_write", "buf": "h", "value": 3},
        {"op": "host_read", "buf": "h"},
        {"op": "host_touch", "buf": "h", "bytes": 4096},
        {"op": "host_access", "reads": [["h", 0, 4]], "writes": [["h", 4, 8]]},
        {"op": "inc", "buf": "d", "stream": "T"},
        {"op": "touch", "buf": "d", "bytes": 4096, "stream": "T"},
        {"op": "pool_threshold", "bytes": mib},
        {"op": "priority_range"},
        {"op": "get_priority", "stream": "T"},
        {"op": "record", "event": "f", "stream": "T"},
        {"op": "wait", "event": "f", "stream": "A"},
        {"op": "query_stream", "stream": "A"},
        {"op": "query_event", "event": "f"},
        {"op": "sync_event", "event": "f"},
        {"op": "sync_stream", "stream": "A"},
        {"op": "sync_device"},
        {"op": "record", "event": "e", "stream": "A"},
        {"op": "elapsed", "start": "e", "end": "e"},
        *OF_GRAPHS,
        {"op": "free_async", "name": "ma", "stream": "T"},
        {"op": "host_unregister", "name": "r"},
        {"op": "free_host", "name": "mh"},
        {"op": "free", "name": "m"},
        {"op": "destroy_event", "event": "f"},
        {"op": "destroy_stream", "name": "T"},
        {"op": "comm_init", "comms": ["r0", "r1"], "devices": [0, 1]},
        {"op": "comm_init_rank", "comm": "alone", "together": "all", "ranks": 1, "rank": 0},
        {"op": "collective", "calls": [BARRIER | {"comm": name} for name in ("r0", "r1")]},
        {"op": "collective", "calls": [BARRIER | {"comm": "alone"}], "name": "Barrier"},
        {"op": "comm_destroy", "comm": "r0"},
        {"op": "create_context", "context": "c", "device": 0},
        {"op": "set_context", "context": "c"},
        {"op": "set_device"},
        {"op": "destroy_context", "context": "c"},
        {"op": "mem_get_info"},
        {"op": "peek_error"},
        {"op": "get_last_error"},
        {"op": "memcpy_async_bad", "dst_addr": 16, "src_addr": 16, "bytes": 4, "kind": 1, "stream": "A"},
        {"op": "poke", "addr": 16, "stream": "A"},
    ]
    assert {step["op"] for step in (*steps, *OF_ACL)} == set(OPS)
    run = replay(parse(document(*steps)))
    assert [call.ret for call in run.host[:-2] if call.ret not in (0, 600)] == []


OF_GRAPHS = [
    {"op": "exchange_mode", "mode": 0},
    {"op": "graph_create", "graph": "p"},
    {"op": "add_empty", "graph": "p", "node": "m"},
    {"op": "add_if", "graph": "p", "default": 1},
    {"op": "begin_capture_body", "stream": "T"},
    {"op": "launch", "stream": "T", "us": 5},
    {"op": "end_capture_body", "stream": "T"},
    {"op": "begin_capture", "stream": "T"},
    {"op": "is_capturing", "stream": "T"},
    {"op": "capture_info", "stream": "T"},
    {"op": "launch", "stream": "T", "us": 5},
    {"op": "end_capture", "stream": "T", "graph": "q"},
    {"op": "begin_capture_to", "stream": "T", "graph": "q"},
    {"op": "end_capture", "stream": "T", "graph": "q"},
    {"op": "add_child", "graph": "p", "child": "q", "node": "n", "after": ["m"]},
    {"op": "nodes", "graph": "p"},
    {"op": "clone", "graph": "p", "to": "r"},
    {"op": "instantiate", "graph": "r", "exec": "x"},
    {"op": "upload", "exec": "x", "stream": "T"},
    {"op": "graph_launch", "exec": "x", "stream": "T"},
    {"op": "exec_update", "exec": "x", "graph": "p"},
    {"op": "exec_destroy", "exec": "x"},
    {"op": "graph_destroy", "graph": "q"},
]  # fmt: skip
OF_ACL = [
    {"op": "begin_capture", "stream": "T", "mode": 2},
    {"op": "group_begin", "stream": "T"},
    {"op": "launch", "stream": "T", "us": 5},
    {"op": "group_end", "stream": "T", "group": "g"},
    {"op": "end_capture", "stream": "T", "graph": "tasks"},
    {"op": "update_begin", "stream": "T", "group": "g"},
    {"op": "launch", "stream": "T", "us": 7},
    {"op": "update_end", "stream": "T"},
    {"op": "create_event", "event": "flag", "kind": "flag", "timing": False},
    {"op": "wait", "event": "flag", "stream": "T"},
    {"op": "query_waits", "event": "flag"},
    {"op": "record", "event": "flag", "stream": "A"},
    {"op": "reset", "event": "flag", "stream": "T"},
    {"op": "create_event", "event": "picture", "kind": "snapshot"},
    {"op": "record", "event": "picture", "stream": "A"},
    {"op": "sync_event", "event": "picture", "limit_ms": 1},
    {"op": "timestamp", "event": "picture"},
    {"op": "create_notify", "notify": "n"},
    {"op": "record_notify", "notify": "n", "stream": "A"},
    {"op": "wait_notify", "notify": "n", "stream": "T", "limit_s": 1},
    {"op": "reset_notify", "notify": "n"},
    {"op": "destroy_notify", "notify": "n"},
    {"op": "memset", "dst": "d", "bytes": 8, "dst_off": 8},
    {"op": "value_wait", "buf": "d", "off": 8, "value": 3, "compare": "eq", "stream": "T"},
    {"op": "value_write", "buf": "d", "off": 8, "value": 3, "stream": "A"},
    {"op": "subscribe", "stream": "T"},
    {"op": "launch_callback", "stream": "T", "name": "seen"},
    {"op": "process_report", "limit_ms": 5},
    {"op": "end_report"},
    {"op": "unsubscribe", "stream": "T"},
    {"op": "launch_cores", "id": "k", "stream": "T", "us": 5, "cores": 2, "blocks": 2, "name": "add",
     "released": [[4, 1], [5, 1]], "reads": [["d", 0, 64]], "writes": [["d", 64, 128]]},
]  # fmt: skip


def test_every_op_of_acl_can_be_played():
    """What CUDA's rules do not have, on two streams."""
    steps = [{"op": "create_stream", "name": "T"}, *OF_ACL, {"op": "sync_device", "limit_ms": 1}]
    run = replay(parse(document(*steps)), device="tiny", rules="acl")
    failed = [(step["op"], call.ret) for step, call in zip(steps, run.host, strict=True) if call.ret]
    assert failed == [("query_waits", 507004)]  # not ready
    assert [(op.name, op.end_ns - op.start_ns) for op in run.trace.ops] == [("fill", 8), ("add", 5_000)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(40))
def test_any_program_runs_to_its_end(seed):
    """Nonsense included: whatever a call is refused for comes back as its code."""
    rng = Random(seed)
    run = replay(parse(nonsense(rng)))
    times = [time for call in run.host for time in (call.enter_us, call.exit_us)]
    assert times == sorted(times)
    assert run.makespan_us >= times[-1]


def nonsense(rng):
    """A program of random calls with random arguments, all of which the format allows."""
    names = {
        "buffer": ["d", "h", "g", "v"], "stream": ["legacy", "per_thread", "A", "N"], "event": ["e", "f"],
        "notify": ["n"], "context": ["c"], "operation": ["o"], "graph": ["p"], "executable": ["x"], "node": ["m"],
        "task group": ["t"], "communicator": ["r"], "group of ranks": [],
    }  # fmt: skip
    values = {
        "us": [0, 1, 50.5, 500],
        "bytes": [1, 4096, 65536, 65540, 1 << 20, 3 << 20],
        "dst_off": [0, 128, 1 << 20],
        "src_off": [0, 128, 1 << 20],
        "blocks": [1, 200],
        "exclusive": [True, False],
        "value": [0, 7],
        "unit": [1, 2, 4],
        "flags": ["blocking", "nonblocking", 0, 2, 77],
        "priority": [-1, 0, 3],
        "timing": [True, False],
        "kind": [-1, 0, 1, 2, 3, 4, 9],
        "dst_addr": [0, 16, 1 << 40, 1 << 63],
        "src_addr": [0, 16, 1 << 40, 1 << 63],
        "addr": [0, 16, 1 << 63],
        "dpitch": [0, 512, 4096],
        "spitch": [0, 512, 1 << 20],
        "width": [0, 256, 1024],
        "height": [0, 1, 64],
        "by": [1, -(2**31)],
        "write": [True, False],
        "blocking": [True, False],
        "sync": [True, False],
        "fill": [True, False],
        "until": [True, False],
        "work_us": [0, 5],
        "sleep_us": [0, 100],
        "reads": [(), [["d", 0, 64]], [["h", 0, 8 << 20]]],
        "writes": [(), [["g", 0, 64]]],
        "cores": [1, 4, 10_000],
        "released": [(), [[1, 1]]],
        "limit_ms": [None, 1],
        "limit_s": [0, 1],
        "off": [0, 3, 8],
        "compare": ["geq", "nor"],
        "block": [True, False],
        "device": [0, 1],
        "mode": [0, 1, 2, 7],
        "default": [0, 1],
        "after": [[], ["m"]],
        "behind": [[], [0], [3]],
        "taken": [None],
        "devices": [[0], [1]],
        "ranks": [1],
        "rank": [0, 1],
        "calls": [
            [BARRIER | {"comm": "r"}],
            [REDUCE],
            [REDUCE | {"reads": [["d", 0, 64]], "writes": [["d", 64, 128]]}],
            [REDUCE | {"stream": "N", "root": 2, "reads": [["v", 0, 64]], "writes": [["v", 0, 64]]}],
        ],
        "external": [True, False],
        "always": [True, False],
        "to": ["host", "device", 1, "global", "single"],
        "advice": ["SetReadMostly", "UnsetReadMostly", "SetPreferredLocation", "SetAccessedBy"],
        "attribute": ["ReadMostly", "AccessedBy", "LastPrefetchLocation"],
    }
    values["kind"] += ["default", "d2h", "flag", "snapshot"]
    ops = [op for op in OPS if op not in CRASHES and (op != "poke" or rng.random() < 0.1)]
    steps = [
        {"op": "create_notify", "notify": "n"},
        {"op": "create_context", "context": "c"},
        {"op": "set_device"},
        {"op": "launch", "id": "o", "stream": "A", "us": 5},
        {"op": "graph_create", "graph": "p"},
        {"op": "add_empty", "graph": "p", "node": "m"},
        {"op": "instantiate", "graph": "p", "exec": "x"},
        {"op": "group_end", "stream": "A", "group": "t"},
        {"op": "comm_init", "comms": ["r"], "devices": [0]},
    ]
    for index in range(9, rng.randint(10, 64)):
        op = rng.choice(ops)
        step = {"op": op}
        for name, field in OPS[op].items():
            if field.makes:
                made = f"{field.makes} {name} {index}"
                step[name] = made if field.fits(made) else [made]
                names[field.makes].append(made)
            else:
                named = names[field.refers] if field.refers and name not in values else ()
                if name == "name" and not named:
                    named = [None, "add"]
                optional = field.default in (None, ())
                fitting = [value for value in values.get(name, ()) if field.fits(value) or (optional and not value)]
                step[name] = rng.choice(named or fitting)
                if step[name] in (None, ()):
                    del step[name]
        if op == "host_func":
            step["buf"] = "g"
        steps.append(step)
    buffers = {name: {"space": space, "bytes": 4 << 20} for name, space in zip("dhgv", SPACES, strict=True)}
    streams = {"A": {}, "N": {"flags": "nonblocking", "priority": -1}}
    return document(*steps, buffers=buffers, streams=streams, events={"e": {}, "f": {"timing": False}})


# What the host touches must be its own, and what a kernel takes must be there.
CRASHES = ("host_write", "host_read", "host_touch", "host_access", "launch_cores")
SPACES = ("device", "pinned", "pageable", "managed")
