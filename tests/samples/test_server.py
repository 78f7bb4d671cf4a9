"""The server: right answers for all who waited, and none for those who did not."""

import os
import socket
import subprocess
import sys
import threading
from functools import partial
from itertools import zip_longest
from pathlib import Path

import anyio
import numpy as np
import pytest
import served
from anyio.abc import SocketAttribute
from server import (
    POLICIES,
    Policy,
    Report,
    answer_over_tcp,
    load_test,
    random_load,
    reference,
    serving,
    talk,
    usual_load,
)

import acl_py as acl

both_loops = pytest.mark.parametrize("uvloop", [False, True])
h200 = partial(acl.run, device="h200")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(20))
def test_random_clients_get_the_answers_of_numpy(seed):
    rng = np.random.default_rng(seed)
    clients, width, hidden = (int(n) for n in rng.integers(1, 60, 3))
    load = random_load(seed, clients, width, hidden, every_us=rng.uniform(1, 50), patience_us=(20, 400))
    policy = Policy("random", batch=int(rng.integers(1, 9)), streams=int(rng.integers(1, 5)))
    report = h200(load_test, policy, load)
    assert len(report.requests) == clients
    for request, expected in zip(report.requests, reference(load), strict=True):
        assert request.is_abandoned == (request.answer is None)
        if not request.is_abandoned:
            np.testing.assert_allclose(request.answer, expected, rtol=1e-4, atol=1e-4)


def test_who_gives_up_in_the_queue_costs_the_device_nothing():
    load = random_load(0, clients=40, width=8, hidden=8, every_us=1, patience_us=(100, 100))
    report = h200(load_test, POLICIES[0], load)
    answered = sum(not request.is_abandoned for request in report.requests)
    assert 0 < answered < 40
    assert report.abandoned(is_started=False) + report.abandoned(is_started=True) == 40 - answered
    assert sum(report.batches) == 40 - report.abandoned(is_started=False)


def test_the_same_clients_come_on_every_run():
    load = random_load(0, clients=50, width=8, hidden=8, every_us=5, patience_us=(50, 500))
    first, second = (h200(load_test, POLICIES[2], load) for _ in range(2))
    assert [r.latency_us for r in first.requests] == [r.latency_us for r in second.requests]


@pytest.mark.slow
def test_batches_and_streams_are_worth_it():
    one_by_one, batches, streams = (h200(load_test, policy, usual_load()) for policy in POLICIES)
    assert batches.answers_per_ms >= 1.5 * one_by_one.answers_per_ms
    assert streams.answers_per_ms >= 1.5 * batches.answers_per_ms
    for one, many in zip(batches.percentiles_us, streams.percentiles_us, strict=True):
        assert one >= 1.5 * many


# --- clients on a network


def test_clients_over_memory_streams_are_answered_give_up_and_are_hung_up_on():
    history, *_ = served.everything()
    ends = [at for _, what, at, *_ in history if what == "hung up on"]
    assert len(ends) == served.CLIENTS
    assert 50 < sum(what == "answered" for _, what, *_ in history) < served.CLIENTS * served.QUESTIONS
    assert min(ends) < 1_500_000  # whose patience ran out
    assert max(ends) > 500_000_000  # who was silent


@both_loops
def test_over_memory_streams_every_run_is_the_same(uvloop):
    assert served.everything(uvloop) == served.everything()


@pytest.fixture(scope="module")
def quiet_history():
    return served.everything()


@both_loops
@pytest.mark.slow
@pytest.mark.usefixtures("busy_cores")
def test_over_memory_streams_busy_cores_change_nothing(quiet_history, uvloop):
    assert served.everything(uvloop) == quiet_history


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_over_memory_streams_other_processes_change_nothing(loop, seed, tmp_path):
    folders = [str(Path(module.__file__).parent) for module in (served, sys.modules["server"])]
    path = os.pathsep.join([*folders, os.environ["PYTHONPATH"]])
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
    command = [sys.executable, "-W", "error", served.__file__, loop]
    told = tmp_path / "history"
    with told.open("w") as file:  # an unbuffered print may write only a part of a long line to a pipe
        subprocess.run(command, env=environment, stdout=file, check=True)
    assert differences(told.read_text(), f"{served.everything()}\n") == []


def differences(told, expected):
    """The parts of two long lines that differ, in pairs; a whole history is too long to be shown."""
    parts = zip_longest(told.split("), "), expected.split("), "))
    return [pair for pair in parts if pair[0] != pair[1]][:5]


@pytest.mark.slow
@both_loops
def test_a_real_client_is_answered_and_its_silence_takes_real_time(uvloop):
    load = random_load(0, clients=5, width=12, hidden=8, every_us=1, patience_us=(1e6, 1e6))
    answers, silence_ms = h200(answer_over_tcp, load, uvloop=uvloop)
    np.testing.assert_allclose(answers, reference(load), rtol=1e-4, atol=1e-4)
    assert silence_ms == pytest.approx(500)


def talk_to_a_server(client, load, uvloop):
    """Return what *client*, a function of a connection, returns in a thread, and when it had, in ns.

    The server allows a silence of an hour.
    """
    policy = Policy("patient", silence_s=3600)

    async def program():
        report = Report()
        async with (
            serving(policy, load, report) as inbox,
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as group,
        ):
            group.start_soon(listener.serve, partial(talk, policy, inbox, report, len(load.up)))
            address = "127.0.0.1", listener.extra(SocketAttribute.local_port)
            outcome = await anyio.to_thread.run_sync(lambda: client(socket.create_connection(address, timeout=10)))
            group.cancel_scope.cancel()
        return outcome, acl.current_simulation().now_ns

    return h200(program, uvloop=uvloop)


@both_loops
def test_a_client_that_takes_its_time_is_not_hung_up_on_before_that(uvloop):
    """It pauses in the middle of each request, for less than the server allows. The clock moves with these pauses."""
    load = random_load(0, clients=3, width=12, hidden=8, every_us=1, patience_us=(1e6, 1e6))

    def client(connection):
        answers = []
        with connection, connection.makefile("rb") as received:
            for vector in load.vectors:
                question = np.float32(1e6).tobytes() + vector.tobytes()
                connection.sendall(question[:6])
                threading.Event().wait(0.03)
                connection.sendall(question[6:])
                answers.append(np.frombuffer(received.read(vector.nbytes), np.float32))
        return answers

    answers, now_ns = talk_to_a_server(client, load, uvloop)
    np.testing.assert_allclose(answers, reference(load), rtol=1e-4, atol=1e-4)
    assert 3 * 0.02 < now_ns / 1e9 < 3600


@both_loops
@pytest.mark.parametrize("patience_us", [20, 0, -5, np.nan])
def test_a_real_client_without_patience_is_hung_up_on(patience_us, uvloop):
    load = random_load(0, clients=1, width=12, hidden=8, every_us=1, patience_us=(1, 1))

    def client(connection):
        with connection, connection.makefile("rb") as received:
            connection.sendall(np.float32(patience_us).tobytes() + load.vectors[0].tobytes())
            return received.read()

    outcome, _ = talk_to_a_server(client, load, uvloop)
    assert outcome == b""


@both_loops
def test_clients_that_leave_do_no_harm(uvloop):
    """The first leaves in the middle of a request, the second resets its connection instead of reading the answer."""
    load = random_load(0, clients=1, width=12, hidden=8, every_us=1, patience_us=(1e6, 1e6))
    question = np.float32(1e6).tobytes() + load.vectors[0].tobytes()

    def client(connection):
        address = connection.getpeername()
        with connection:
            connection.sendall(question[:9])
        with socket.create_connection(address, timeout=10) as rude:
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            rude.sendall(question)
        with socket.create_connection(address, timeout=10) as polite, polite.makefile("rb") as received:
            polite.sendall(question)
            return np.frombuffer(received.read(load.vectors[0].nbytes), np.float32)

    answer, _ = talk_to_a_server(client, load, uvloop)
    np.testing.assert_allclose(answer, reference(load)[0], rtol=1e-4, atol=1e-4)
