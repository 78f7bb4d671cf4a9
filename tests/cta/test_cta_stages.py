"""Stages of a block with links of groups or of mbarriers: right, without findings, and as fast as by hand."""

import numpy as np
import pytest
from blocks import found

from acl_py import cta
from device_model.cta.launch import Machine, Options, Parameter, run_on_arrays
from device_model.kernel.findings import KernelError
from device_model.profile import load

PROFILE = load("h200")
MACHINE = Machine(PROFILE.sm, PROFILE.cores.count, 0)
THREADS, TILES = 128, 9
TILE = THREADS * 4
LINKS = (cta.GroupLink, cta.BarrierLink)


def in_stages(x, y, depth, link):
    t = cta.tid

    def load(tile, slot):
        cta.cp_async(slot.at[t * 4], x.at[tile, t * 4], 16)

    def reverse(tile, slot):
        y[tile, t] = slot[TILE - 1 - t] * 2

    stages = cta.Stages(depth, link)
    stages.add(load, [(np.float32, TILE)])
    stages.add(reverse)
    stages.run(range(TILES))


def by_hand(x, y, depth, _):
    s, t = cta.shared(np.float32, (depth, TILE)), cta.tid
    pipe = cta.pipeline(depth)
    for at in range(TILES + depth - 1):
        if at < TILES:
            pipe.producer_acquire()
            cta.cp_async(s.at[at % depth, t * 4], x.at[at, t * 4], 16)
            pipe.producer_commit()
        if at >= depth - 1:
            tile = at - depth + 1
            pipe.consumer_wait()
            cta.syncthreads()
            y[tile, t] = s[tile % depth, TILE - 1 - t] * 2
            cta.syncthreads()
            pipe.consumer_release()


def run(kernel, depth=2, link=cta.GroupLink):
    x = np.arange(TILES * TILE, dtype=np.float32).reshape(TILES, TILE)
    y = np.zeros((TILES, THREADS), np.float32)
    options = Options(threads=THREADS, shared=64 * 1024)
    parameters = [Parameter(name, True, True) for name in ("x", "y", "depth", "link")]
    result = run_on_arrays(kernel, 1, (x, y, depth, link), machine=MACHINE, options=options, parameters=parameters)
    return result, y, x[:, ::-1][:, :THREADS] * 2


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_stages_compute_right_and_have_no_finding(depth, link):
    result, y, expected = run(in_stages, depth, link)
    np.testing.assert_array_equal(y, expected)
    assert found(result) == []


@pytest.mark.parametrize("link", LINKS)
def test_a_deeper_pipeline_is_faster(link):
    one, two, four = (run(in_stages, depth, link)[0].timeline.duration_ns for depth in (1, 2, 4))
    assert two < 0.8 * one
    assert four < 0.8 * two


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_stages_issue_what_a_pipeline_by_hand_issues(depth):
    rows = [[(row.name, row.number) for row in run(each, depth)[0].blocks[0].rows] for each in (in_stages, by_hand)]
    assert rows[0] == rows[1]


def test_a_stage_between_two_others_has_links_to_both():
    def kernel(x, y, depth, link):
        t = cta.tid

        def load(tile, slot):
            cta.cp_async(slot.at[t * 4], x.at[tile, t * 4], 16)

        def double(_, slot, doubled):
            doubled[t] = slot[TILE - 1 - t] * 2

        def store(tile, doubled):
            y[tile, THREADS - 1 - t] = doubled[THREADS - 1 - t]

        stages = cta.Stages(depth, link)
        stages.add(load, [(np.float32, (TILE,))])
        stages.add(double, [(np.float32, THREADS)])
        stages.add(store)
        assert repr(stages) == "<Pipeline of depth 2: load -> double -> store>"
        stages.run(range(TILES))

    result, y, expected = run(kernel)
    np.testing.assert_array_equal(y, expected)
    assert found(result) == []
    result, _, _ = run(kernel, 2, cta.BarrierLink)  # which tells of copies, and not of stores
    assert found(result) == [("RAW", "syncthreads()")]


def test_a_link_that_forgets_to_wait_until_a_slot_is_free_is_found():
    class Hasty(cta.GroupLink):
        def release(self):
            self._released += 1

    result, _, _ = run(in_stages, 1, Hasty)
    assert ("WAR", "syncthreads()") in found(result)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: cta.Stages(0), "a pipeline of depth 0 at test_cta_stages.py"),
        (lambda: cta.Stages(2).run([1]), "it takes two stages or more"),
        (lambda: _twice(), "has run; add all stages first"),
        (lambda: _unfilled(), "a stage behind one that fills nothing"),
    ],
)
def test_mistakes_are_named(wrong, message):
    with pytest.raises(KernelError, match=message):
        run(lambda *_: wrong())


def _twice():
    stages = cta.Stages(1)
    stages.add(lambda _, slot: None, [(np.float32, 4)])
    stages.add(lambda _, slot: None)
    stages.run([])
    stages.add(lambda _: None)


def _unfilled():
    stages = cta.Stages(1)
    stages.add(lambda _: None)
    stages.add(lambda _: None)
