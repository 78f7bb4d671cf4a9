"""Batches: points share the tasks of a cluster of Dask, which here has two threads of this process."""

import pickle
from collections import Counter
from contextlib import closing

import pytest

from acl_py.many.batches import WorkerDiedError, _Batch
from acl_py.many.crew import Crew
from tests import many

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # a cluster, if only of threads


@pytest.fixture(scope="module")
def client():
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    any_port = {"dashboard_address": ":0"}  # other tests have clusters, too
    with (
        distributed.LocalCluster(**workers, scheduler_kwargs=any_port) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def crew(client):
    with Crew(client.get_executor(pure=False)) as crew:
        yield crew


def test_short_points_share_tasks_and_a_long_one_ends_its_task(crew):
    times = [0.001] * 60 + [0.3] + [0.001] * 60
    answers = list(crew.in_order(many.task_of, times))
    assert [seconds for seconds, _, _ in answers] == times
    assert max(Counter(task for _, task, _ in answers).values()) > 2
    _, task, end_s = answers[60]
    assert max(answer[2] for answer in answers if answer[1] == task) == end_s


def test_answers_come_while_their_batch_still_runs(client):
    """Its third point ends only once the answers at the other two have come."""
    come = []

    def take(event):
        come.extend(number for number, _ in event[1])
        if come == [1, 2]:
            many.TWO_CAME.set()

    client.subscribe_topic("answers", take)
    batch = _Batch(many.third_waits, ((1, 1), (2, 2), (3, 3)), "answers")
    _, answers = client.submit(batch, pure=False).result()
    assert [(number, pickle.loads(answer)) for number, answer in answers] == [(1, True), (2, True), (3, True)]


def test_a_batch_that_has_begun_before_does_not_run(client):
    with pytest.raises(WorkerDiedError):
        client.submit(many.begins_twice, pure=False).result()


def test_an_error_comes_out_in_its_turn_and_the_crew_goes_on(crew):
    with closing(crew.in_order(many.half, [0, 2, 3, *range(0, 400, 2)])) as answers:
        assert [next(answers), next(answers)] == [0, 1]
        with pytest.raises(ArithmeticError, match="3 is odd"):
            next(answers)
    assert dict(crew.as_they_end(many.half, range(0, 80, 2))) == {number: number for number in range(40)}


def test_an_answer_that_cannot_travel_gives_up_its_point_only(crew):
    lost = list(crew.in_order(many.nothing_to_send, range(4), lambda point, why: (point, why.partition(":")[0])))
    assert lost == [(0, "the worker"), 1, (2, "the worker"), 3]


def test_large_answers_come_with_the_end_of_their_task(crew):
    assert list(crew.in_order(many.letters, [1, 1 << 15, 2, 1 << 16])) == ["x" * n for n in (1, 1 << 15, 2, 1 << 16)]


def test_points_may_depend_on_answers(crew):
    points, seen = many.Growing(), []
    for answer in crew.in_order(many.half, points):
        seen.append(answer)
        if answer < 8:
            points.left += [4 * answer, 8 * answer]
    assert seen == [1, 2, 4, 4, 8, 8, 16, 8, 16]
