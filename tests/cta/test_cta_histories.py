"""Blocks that begin as earlier ones did: what is not checked again is found all the same."""

from collections import Counter
from copy import copy

import numpy as np
import pytest
from blocks import launch
from test_cta_seeded import MISTAKES, Plan

from acl_py import cta

BUFFERED = "waits for one group too few"  # a plan with this mistake has two buffers or more


def findings_of(plans):
    """Run a block for each of *plans*, in one launch; return how often each finding was made."""
    x = np.arange(plans[0].tiles * plans[0].tile, dtype=np.float32).reshape(plans[0].tiles, -1)
    y = np.zeros((len(plans), *x.shape), np.float32)

    def kernel(x, y):
        plans[cta.block[0]].kernel(x, y[cta.block[0]])

    result = launch(kernel, x, y, grid=(len(plans), 1, 1), threads=plans[0].threads, shared=100_000)
    return Counter({(each.rule, each.sites, each.missing): each.count for each in result.findings})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(4))
def test_a_block_has_the_findings_that_it_has_alone_whatever_ran_before_it(seed):
    """Plans with one seed begin alike, and part where their mistakes are; each is in the launch twice."""
    plans = []
    for mistake in (None, *MISTAKES, None, *reversed(MISTAKES)):
        plans.append(copy(Plan(seed, BUFFERED)))
        plans[-1].mistake = mistake
    alone = {plan.mistake: findings_of([plan]) for plan in plans}
    assert not alone[None]
    assert sum(bool(each) for each in alone.values()) > 8
    assert findings_of(plans) == sum((alone[plan.mistake] for plan in plans), Counter())


def test_barriers_of_some_threads_are_made_up_for_when_a_block_goes_its_own_way():
    """The blocks share steps with syncwarp, mbarriers, atomics and copies; the last step of odd ones is a hazard."""

    def kernel(x, y, odd, is_early):
        s, t = cta.shared(np.float32, (2, 64)), cta.tid
        full = cta.mbarrier(count=64)
        cta.syncthreads()
        cta.cp_async(s.at[0, t], x.at[t], 4)
        cta.cp_async_mbarrier_arrive(full, noinc=True)
        if is_early:  # a hazard of all blocks, before their ways part
            y[cta.block[0], t] = s[0, 63 - t]
        full.wait(0)
        s[1, t] = s[0, 63 - t]
        cta.syncwarp()
        cta.atomic_add(s.at[1, t // 32 * 32 + 31 - t % 32], 1)
        if cta.block[0] in odd:
            y[cta.block[0], t] = s[1, 63 - t]
        else:
            cta.syncthreads()
            y[cta.block[0], t] = s[1, t]

    def missing(*odd, is_early=False):
        x, y = np.arange(64, dtype=np.float32), np.zeros((4, 64), np.float32)
        result = launch(kernel, x, y, odd, is_early, grid=(4, 1, 1), threads=64)
        assert all((y[block] == 64 - np.arange(64)).all() for block in range(4) if block not in odd)
        return [(each.missing, each.where, each.count) for each in result.findings]

    assert missing() == []
    assert missing(2) == [("syncthreads()", "block 2", 1)]
    assert missing(1, 3) == [("syncthreads()", "block 1", 2)]
    early = ("the wait for its mbarrier", "block 0", 4)
    assert missing(1, 3, is_early=True) == [early, ("syncthreads()", "block 1", 2)]
