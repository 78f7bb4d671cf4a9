"""Failed calls are listed at the end, by function, line and code: most scripts never look at what a call gives."""

import re
import threading
from pathlib import Path

import card
import pytest
from card import done, made

from acl_py.compat.acl import Tensor, register_model, register_op, unregister_model, unregister_op
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import report


def failed():
    """What the summary says of failures."""
    return [
        line.strip()
        for line in report(session()).splitlines()
        if line.startswith(("  failed", "  and", "    the same"))
    ]


def lines_of(stderr):
    return [line.strip() for line in stderr.splitlines() if "failed: " in line]


DOUBLE_FREE = """\
    import acl
    acl.init()
    acl.rt.set_device(0)
    address, ret = acl.rt.malloc(64, 0)
    for _ in range(3):
        acl.rt.free(address)
    event, ret = acl.rt.create_event()
    acl.rt.destroy_event(event)
    acl.rt.record_event(event, 0)
    """
DOUBLE = (
    "failed: acl.rt.free() at script.py:6, 2 times: ACL_ERROR_RT_PARAM_INVALID (107000): Free of <Buffer device 64 B "
    "allocation 1 made at script.py:4, freed at script.py:6>, which was freed already; free it once"
)
STALE = (
    "failed: acl.rt.record_event() at script.py:9: ACL_ERROR_RT_INVALID_HANDLE (107017): "
    "0x10000000 is no longer an event: it was destroyed at script.py:8"
)


def test_a_failing_call_is_not_silent(run):
    done = run(DOUBLE_FREE)
    assert (done.returncode, done.stdout) == (0, "")
    assert lines_of(done.stderr) == [DOUBLE, STALE]


def test_strict_exits_with_4_if_a_call_failed(run):
    done = run(DOUBLE_FREE, options=("--strict",))
    assert done.returncode == 4
    assert lines_of(done.stderr) == [DOUBLE, STALE]


def test_the_exit_code_of_the_script_comes_before_that_of_strict(run):
    done = run("import acl, sys\nacl.rt.set_device(99)\nsys.exit(7)\n", options=("--strict",))
    assert done.returncode == 7


def test_the_exit_code_of_a_hang_comes_before_that_of_strict(run):
    script = """\
        import acl
        acl.rt.set_device(99)
        acl.rt.set_device(0)
        notify, ret = acl.rt.create_notify(0)
        acl.rt.wait_and_reset_notify(notify, 0, 0)
        acl.rt.synchronize_stream(0)
        """
    done = run(script, options=("--strict",))
    assert done.returncode == 3
    (line,) = lines_of(done.stderr)
    assert line.startswith("failed: acl.rt.set_device() at script.py:2: ACL_ERROR_RT_INVALID_DEVICEID (107001): ")


def test_what_fails_in_a_finalizer_counts_too(run):
    script = """\
        import acl
        acl.rt.set_device(0)

        class Owner:
            def __del__(self):
                acl.rt.free(0)

        owner = Owner()
        """
    done = run(script, options=("--strict",))
    assert done.returncode == 4
    assert lines_of(done.stderr) == [
        "failed: acl.rt.free() at script.py:6: ACL_ERROR_INVALID_PARAM (100000): the address is 0"
    ]


def test_a_failure_in_a_stream_is_listed_with_the_line_that_submitted_it(acl):
    """Also if no call asks for it."""

    @register_op("Breaks")
    def breaks(x):
        raise ZeroDivisionError("a bug")

    address = made(acl.rt.malloc(16, 0))
    done(acl.rt.memset(address, 16, 0, 16))
    desc, buffer = acl.create_tensor_desc(0, [4], 2), acl.create_data_buffer(address, 16)
    stream = made(acl.rt.create_stream())
    try:
        for _ in range(2):
            done(acl.op.execute_v2("Breaks", [desc], [buffer], [desc], [buffer], 0, stream))
        assert acl.rt.synchronize_device() == 507035
    finally:
        unregister_op("Breaks")
    line = breaks.__code__.co_firstlineno + 10
    operation, call = failed()
    what = "Breaks raised ZeroDivisionError: a bug; fix the function; its traceback was printed when it failed"
    name = "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION (507035)"
    assert operation == f"failed: kernel Breaks, submitted at test_failed_calls.py:{line}, 2 times: {name}: {what}"
    assert call == (
        f"failed: acl.rt.synchronize_device() at test_failed_calls.py:{line + 1}: {name}: <Breaks on stream 1 "
        f"submitted at test_failed_calls.py:{line}> failed: {what}"
    )


@pytest.mark.parametrize("flag", [None, card.SYNC], ids=["snapshot", "level flag"])
def test_a_wait_that_reaches_its_time_limit_is_listed_even_if_no_later_call_synchronises(acl, flag):
    stream, other = made(acl.rt.create_stream()), made(acl.rt.create_stream())
    never = made(acl.rt.create_event_with_flag(card.SYNC))
    event = made(acl.rt.create_event() if flag is None else acl.rt.create_event_with_flag(flag))
    if flag is None:  # recorded behind a wait that never ends
        done(acl.rt.stream_wait_event(other, never), acl.rt.record_event(event, other))
    done(acl.rt.set_op_wait_timeout(2))
    for _ in range(2):
        done(acl.rt.stream_wait_event(stream, event))
    done(acl.rt.destroy_stream(stream))  # waits for the stream, and reports nothing
    (line,) = failed()
    state = "pending" if flag is None else "never recorded"
    assert re.sub(r"py:\d+", "py", line) == (
        "failed: wait for Event 2, submitted at test_failed_calls.py, 2 times: "
        "ACL_ERROR_RT_TASK_TIMEOUT (107020): <Stream stream 1 of device 0 made at test_failed_calls.py busy> has "
        f"waited 2 s for <Event 2 made at test_failed_calls.py {state}>; make sure that it is signalled in time, or "
        "allow more time with acl.rt.set_op_wait_timeout()"
    )
    waits = "done(acl.rt.stream_wait_event(stream, event))"
    submitted = int(re.search(r"submitted at test_failed_calls\.py:(\d+)", line)[1])
    assert Path(__file__).read_text(encoding="utf-8").splitlines()[submitted - 1].strip() == waits


def test_only_the_first_lines_that_fail_are_listed_and_the_rest_counted(acl):
    calls = [f"acl.rt.set_device({number}); acl.rt.set_device({number})" for number in range(91, 106)]
    exec(compile("\n".join(calls), "many.py", "exec"), {"acl": acl})
    told = failed()
    assert [line.partition(": ACL")[0] for line in told[:10]] == [
        f"failed: acl.rt.set_device() at many.py:{number}, 2 times" for number in range(1, 11)
    ]
    assert told[10:] == ["and 10 more failures, in 5 other combinations of function, line and code"]


def test_an_answer_that_was_listed_is_not_repeated_for_each_line_that_gets_it(acl):
    exec(compile("acl.rt.free(64)\n" * 13, "many.py", "exec"), {"acl": acl})
    first, others = failed()
    assert first.startswith("failed: acl.rt.free() at many.py:1: ACL_ERROR_RT_PARAM_INVALID (107000): ")
    places = "; ".join(f"acl.rt.free() at many.py:{line}" for line in range(2, 12))
    assert others == f"the same answer: {places}; and 2 more"


def test_a_helper_that_makes_all_calls_is_one_line_with_several_functions_and_codes(acl):
    def call(function, *arguments):
        return function(*arguments)

    for function, *arguments in (
        (acl.rt.free, 0), (acl.rt.malloc, 0, 0), (acl.rt.free, 0), (acl.rt.free, 64), (acl.rt.set_device, 99),
    ):  # fmt: skip
        call(function, *arguments)
    line = call.__code__.co_firstlineno + 1
    assert [each.partition("): ")[0] for each in failed()] == [
        f"failed: acl.rt.{name}() at test_failed_calls.py:{line}{rest}"
        for name, rest in (
            ("free", ", 2 times: ACL_ERROR_INVALID_PARAM (100000"),
            ("malloc", ": ACL_ERROR_RT_PARAM_INVALID (107000"),
            ("free", ": ACL_ERROR_RT_PARAM_INVALID (107000"),
            ("set_device", ": ACL_ERROR_RT_INVALID_DEVICEID (107001"),
        )
    ]


def test_answers_are_no_failures(acl):
    """What has not come yet, which scripts ask for again and again."""
    stream, event = made(acl.rt.create_stream()), made(acl.rt.create_event_with_flag(card.SYNC))
    done(acl.rt.subscribe_report(1, stream), acl.rt.stream_wait_event(stream, event))
    assert acl.rt.query_event_status(event) == (0, 0)  # not yet
    assert acl.rt.stream_query(stream) == (1, 0)  # not yet
    assert acl.rt.process_report(10) == 107012  # of a thread that has subscribed to nothing
    done(acl.rt.unsubscribe_report(1, stream), acl.rt.subscribe_report(threading.get_ident(), stream))
    assert acl.rt.process_report(10) == 507012  # no callback came
    assert acl.rt.peek_at_last_error(0) == 507012
    assert failed() == []
    assert acl.rt.unsubscribe_report(1, stream) == 107012  # is no question
    (line,) = failed()
    assert line.startswith("failed: acl.rt.unsubscribe_report() at ")


def test_to_ask_a_model_without_gears_for_its_gear_is_no_failure(acl):
    register_model("plain.om", [Tensor("x", "float32", (4,))], [Tensor("y", "float32", (4,))])(lambda x: x)
    desc = acl.mdl.create_desc()
    done(acl.mdl.get_desc(desc, made(acl.mdl.load_from_file("plain.om"))))
    unregister_model("plain.om")
    assert acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data") == (0, 100000)
    assert failed() == []
    assert acl.mdl.get_input_index_by_name(desc, "z") == (0, 100000)
    (line,) = failed()
    assert "there is no tensor 'z'" in line


IN_A_THREAD = """\
    import acl

    def report(args):
        raise ValueError(f"no channel {args[0]}")

    acl.init()
    acl.rt.set_device(0)
    thread, ret = acl.util.start_thread(report, [7])
    try:
        acl.util.stop_thread(thread)
    except RuntimeError:
        print("told")
    """


def test_an_exception_in_a_thread_of_acl_is_printed_at_once_and_counts(run):
    """Most scripts never stop their threads, so nobody would ever see it."""
    ended = run(IN_A_THREAD.partition("    try:")[0] + "    import time\n    time.sleep(0.1)\n")
    traceback, _, summary = ended.stderr.partition("acl-py: ")
    assert traceback == (
        "Exception in thread acl.util.start_thread (report), started at script.py:8:\n"
        "Traceback (most recent call last):\n"
        f'  File "{ended.args[-1]}", line 4, in report\n'
        '    raise ValueError(f"no channel {args[0]}")\n'
        "ValueError: no channel 7\n"
    )
    line = "failed: a thread of acl.util.start_thread() at script.py:8: ValueError: no channel 7"
    assert (ended.returncode, lines_of(summary)) == (0, [line])
    strict = run(IN_A_THREAD, options=("--strict",))
    assert (strict.returncode, strict.stdout, lines_of(strict.stderr)) == (4, "told\n", [line])


def test_a_function_that_is_not_simulated_has_failed(acl):
    acl.rt.get_devices_topo(0, 1)
    acl.mdl.load_with_config(0)
    assert [line.partition(" at ")[0] for line in failed()] == [
        "failed: acl.rt.get_devices_topo()", "failed: acl.mdl.load_with_config()",
    ]  # fmt: skip


def test_the_sentence_is_one_line_without_control_characters(acl, capsys):
    acl.mdl.load_from_file("evil\x1b[31m\nname.om")
    (line,) = failed()
    assert "evil\\x1b[31m" in line
    assert "\x1b" not in line


def test_calls_inside_a_simulation_of_the_native_api_are_listed(run):
    script = """\
        import acl
        import acl_py

        async def main():
            acl.rt.free(0)

        acl_py.run(main, device="ascend910b3")
        """
    done = run(script, options=("--strict",))
    assert done.returncode == 4
    assert done.stderr.splitlines() == [
        "acl-py: inside simulations of the native API",
        "  failed: acl.rt.free() at script.py:5: ACL_ERROR_INVALID_PARAM (100000): the address is 0",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_that_the_script_starts_tells_of_a_failing_call_at_once(run, method):
    """For there is no summary of it; each line is told once."""
    script = f"""\
        import multiprocessing
        import acl

        def work(_):
            for _ in range(3):
                acl.rt.set_device(99)

        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(1) as pool:
                pool.map(work, range(2))
        """
    done = run(script)
    assert done.returncode == 0
    assert done.stderr == (
        "acl-py: failed: acl.rt.set_device() at script.py:6: ACL_ERROR_RT_INVALID_DEVICEID (107001): "
        "there is no device 99; profile ascend910b3 has devices 0 to 7\n"
    )
