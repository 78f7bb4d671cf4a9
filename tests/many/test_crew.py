"""Crews: the same answers in the same order from one process, from threads and from a pool."""

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import acl_py
from acl_py.many.crew import Crew, WorkerError
from tests import many


class Backwards(ThreadPoolExecutor):
    """Runs each four jobs at once, the last one first."""

    def __init__(self):
        super().__init__(1)
        self._held = []

    def submit(self, job, point):
        future = Future()
        self._held.append((future, job, point))
        if len(self._held) == 4:
            while self._held:
                held, job, point = self._held.pop()
                held.set_result(job(point))
        return future


def test_answers_come_in_the_order_of_the_points():
    with Backwards() as executor:
        crew = Crew(executor, ahead=4)
        assert list(crew.in_order(many.half, range(0, 16, 2))) == list(range(8))
        assert list(crew.as_they_end(many.half, range(0, 8, 2))) == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_what_a_function_raises_comes_out_in_its_turn(threads):
    with ThreadPoolExecutor(threads) as executor:
        answers = (Crew(executor) if threads else Crew(workers=1)).in_order(many.half, [0, 2, 3, 4, 5])
        assert [next(answers), next(answers)] == [0, 1]
        with pytest.raises(ArithmeticError, match="3 is odd"):
            next(answers)


class Growing:
    """Yields 2 first, and further numbers only once it was told so."""

    def __init__(self):
        self.left = [2]

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


@pytest.mark.parametrize("threads", [None, 3])
def test_points_may_depend_on_answers(threads):
    points, seen = Growing(), []
    with ThreadPoolExecutor(threads) as executor:
        for answer in (Crew(executor) if threads else Crew(workers=1)).in_order(many.half, points):
            seen.append(answer)
            if answer < 8:
                points.left += [4 * answer, 8 * answer]
    assert seen == [1, 2, 4, 4, 8, 8, 16, 8, 16]


def test_a_worker_of_another_version_is_refused_by_name(monkeypatch):
    monkeypatch.setattr("acl_py.many.crew.node", lambda: "far.example")
    with ThreadPoolExecutor(1) as executor:
        answers = Crew(executor).in_order(many.half, Growing())
        submit = executor.submit

        def elsewhere(job, point):
            monkeypatch.setattr(acl_py, "__version__", "0.0.9")
            return submit(job, point)

        executor.submit = elsewhere
        text = r"worker far\.example has acl_py 0\.0\.9, and this process 0\.1\.0: install the same version"
        with pytest.raises(WorkerError, match=text):
            next(answers)


def test_an_answer_that_cannot_travel_gives_up_its_point_only():
    with Crew(workers=2) as crew:
        answers = list(crew.in_order(many.nothing_to_send, range(4), lambda point, why: (point, why.split(":")[0])))
    assert answers == [(0, "the worker"), 1, (2, "the worker"), 3]


def test_a_crew_has_workers_or_an_executor():
    with pytest.raises(ValueError, match="workers must be 1 or more, not 0"):
        Crew(workers=0)
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="give executor or workers, not both"):
        Crew(executor, 2)
