"""Pasts of streams: their clocks are computed late, and are the same as if each wait had computed one at once."""

import gc
from random import Random

import pytest

from acl_py.order.actors import Line
from acl_py.order.clocks import Past


class Eager:
    """A stream that computes its clock at each wait."""

    def __init__(self, number):
        self.number = number
        self.clock = {}

    def wait(self, actor, epoch, clock):
        for other, reached in {**clock, actor: epoch}.items():
            if other != self.number:
                self.clock[other] = max(self.clock.get(other, 0), reached)


@pytest.mark.parametrize("seed", range(20))
def test_a_clock_that_is_computed_late_has_what_each_wait_added(seed):
    random = Random(seed)
    streams = [(Line(number, 1, None), Eager(number)) for number in range(1, 2 + seed % 7)]
    records = []
    compared = 0
    for _ in range(1500):
        line, eager = random.choice(streams)
        match random.randrange(4):
            case 0:
                line.count += 1
            case 1:
                records.append((line.point(), dict(eager.clock)))
            case 2 if records:
                point, clock = random.choice(records[-20:])
                line.join((point,))
                eager.wait(point.actor, point.epoch, clock)
            case 3 if not random.randrange(40):
                compared += 1
                assert {other: at for other, at in line.past.clock.items() if other != line.number} == eager.clock
    assert compared


def living_pasts():
    gc.collect()
    return sum(isinstance(each, Past) for each in gc.get_objects())


def test_streams_that_wait_for_each_other_without_end_keep_few_pasts():
    before = living_pasts()
    lines = [Line(number, 0, None) for number in range(1, 5)]
    for turn in range(4000):
        one, other = lines[turn % 4], lines[(turn + 1) % 4]
        one.count += 1
        other.join((one.point(),))
    assert living_pasts() - before < 1000
    assert [line.past.clock.keys() >= {1, 2, 3, 4} - {line.number} for line in lines] == [True] * 4
