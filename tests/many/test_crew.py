"""Crews: the same answers in the same order from one process, from threads and from a pool."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

import acl_py
from acl_py.many.crew import Crew, WorkerError
from tests import many


class Late:
    """Three points. The first one ends only once the second has ended and the third was asked for."""

    def __init__(self):
        self.may_end = Event()

    def __iter__(self):
        yield from (0, 1)
        self.may_end.set()
        yield 2

    def run(self, point):
        assert point or self.may_end.wait(30)
        return 10 * point


def test_answers_come_in_the_order_of_the_points():
    with ThreadPoolExecutor(2) as executor:
        late = Late()
        assert list(Crew(executor, ahead=2).in_order(late.run, late)) == [0, 10, 20]
        late = Late()
        place, answer = next(Crew(executor, ahead=2).as_they_end(late.run, late))
        assert (place, answer) == (1, 10)
        late.may_end.set()


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_what_a_function_raises_comes_out_in_its_turn(threads):
    with ThreadPoolExecutor(threads) as executor:
        answers = (Crew(executor) if threads else Crew(workers=1)).in_order(many.half, [0, 2, 3, 4, 5])
        assert [next(answers), next(answers)] == [0, 1]
        with pytest.raises(ArithmeticError, match="3 is odd"):
            next(answers)


@pytest.mark.parametrize("threads", [None, 3])
def test_points_may_depend_on_answers(threads):
    points, seen = many.Growing(), []
    with ThreadPoolExecutor(threads) as executor:
        for answer in (Crew(executor) if threads else Crew(workers=1)).in_order(many.half, points):
            seen.append(answer)
            if answer < 8:
                points.left += [4 * answer, 8 * answer]
    assert seen == [1, 2, 4, 4, 8, 8, 16, 8, 16]


def test_a_worker_of_another_version_is_refused_by_name(monkeypatch):
    monkeypatch.setattr("acl_py.many.crew.node", lambda: "far.example")
    with ThreadPoolExecutor(1) as executor:
        answers = Crew(executor).in_order(many.half, many.Growing())
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
