"""Random pipelines of copies: right ones are silent and compute, and each seeded mistake is found, tuned ones too."""

from random import Random

import numpy as np
import pytest
from blocks import found, launch

from acl_py import cta

MISTAKES = {
    "no wait": "RAW",
    "waits for one group too few": "RAW",
    "no commit": "RAW",
    "no barrier before the reads": "RAW",
    "no barrier behind the reads": "WAR",
    "reads the next stage": "RAW",
    "one buffer too few": "WA",  # WAW of two copies, or WAR against the readers
    "ends early": "COPY_LEFT",
    "reads beside the tile": "UNWRITTEN_READ",
    "overwrites its own tile": "WAR",
    "a barrier of warps only": "RAW",
    "waits in one warp": "RAW",
}


class Plan:
    """A random pipeline: groups of cp.async, a cuda::pipeline of a thread, or one of the block."""

    def __init__(self, seed, mistake=None, **fixed):
        random = Random(seed)
        self.mistake = mistake
        self.how = "groups" if mistake else random.choice(["groups", "groups", "thread", "block"])
        self.stages = random.randint(2 if mistake in ("waits for one group too few", "reads the next stage") else 1, 4)
        if mistake == "one buffer too few":
            self.stages = random.randint(2, 4)
        self.threads = random.choice([64, 96, 128, 256])
        self.width = random.choice([4, 8, 16])
        self.copies = random.randint(1, 3)
        vars(self).update(fixed)
        self.tiles = self.stages + random.randint(2, 6)
        self.flip = random.choice([1, 32, 33, self.threads - 1])  # whose elements a thread reads
        if mistake in ("no barrier before the reads", "a barrier of warps only", "waits in one warp"):
            self.flip = 32
        self.per_copy = self.width // 4
        self.tile = self.threads * self.copies * self.per_copy
        self.work = random.randint(0, 3)

    def other(self, t):
        return (t + self.flip) % self.threads

    def kernel(self, x, y):
        buffers = self.stages - (self.mistake == "one buffer too few")
        spare = self.threads if self.mistake == "reads beside the tile" else 0
        s, t = cta.shared(np.float32, (buffers, self.tile + spare)), cta.tid
        pipe = None if self.how == "groups" else cta.pipeline(self.stages, self.how)
        ahead = self.stages - 1
        for i in range(self.tiles + ahead):
            if i < self.tiles:
                self.start(pipe, s, x, i, buffers, t)
            elif pipe is None:
                cta.commit_group()  # an empty group, so that the same number may be pending
            if i >= ahead:
                self.use(pipe, s, y, i - ahead, buffers, t)
        if self.mistake == "ends early":
            cta.cp_async(s.at[0, t * self.per_copy], x.at[0, t * self.per_copy], self.width)

    def start(self, pipe, s, x, i, buffers, t):
        if pipe:
            pipe.producer_acquire()
        for copy in range(self.copies):
            at = (copy * self.threads + t) * self.per_copy
            cta.cp_async(s.at[i % buffers, at], x.at[i, at], self.width)
        if pipe:
            pipe.producer_commit()
        elif self.mistake != "no commit":
            cta.commit_group()

    def wait(self):
        if self.mistake == "no wait":
            return
        if self.mistake == "waits in one warp":
            with cta.where(cta.tid < 32):
                cta.wait_group(self.stages - 1)
            return
        cta.wait_group(self.stages - (self.mistake != "waits for one group too few"))

    def use(self, pipe, s, y, i, buffers, t):
        if pipe:
            pipe.consumer_wait()
        else:
            self.wait()
        if self.how != "block":
            if self.mistake == "a barrier of warps only":
                cta.syncwarp()
            elif self.mistake != "no barrier before the reads":
                cta.syncthreads()
        stage = i + (self.mistake == "reads the next stage")
        for copy in range(self.copies * self.per_copy):
            at = copy * self.threads + self.other(t)
            if self.mistake == "reads beside the tile" and copy == 0:
                at = at + self.tile
            value = s[stage % buffers, at]
            for _ in range(self.work):
                value = value * 1
            y[i, copy * self.threads + t] = value
        if self.mistake == "overwrites its own tile":
            s[stage % buffers, t] = 0
        if pipe:
            pipe.consumer_release()
        if self.how != "block" and self.mistake != "no barrier behind the reads":
            cta.syncthreads()

    def run(self):
        x = np.arange(self.tiles * self.tile, dtype=np.float32).reshape(self.tiles, self.tile)
        y = np.zeros_like(x)
        result = launch(self.kernel, x, y, threads=self.threads, shared=100_000, out=())
        columns = x.reshape(self.tiles, -1, self.threads)
        right = (y.reshape(columns.shape) == columns[:, :, self.other(np.arange(self.threads))]).all()
        return found(result), right


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(100))
def test_a_right_pipeline_is_silent_and_computes(seed):
    assert Plan(seed).run() == ([], True)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_seeded_mistake_is_found(mistake, seed):
    findings, _ = Plan(1000 + seed, mistake).run()
    assert any(rule.startswith(MISTAKES[mistake]) for rule, _ in findings), findings


LARGEST = (4 + 6) * 128 * 2 * 4  # numbers of a variant: tiles, threads, copies, numbers of a copy


@cta.kernel(threads=128, shared=100_000)
def variant(x: cta.In, y: cta.InOut, mistake, seed, stages: int, copies: int):
    plan = Plan(seed, mistake, threads=cta.threads, stages=stages, copies=copies)
    numbers = plan.tiles * plan.tile
    plan.kernel(x[:numbers].reshape(plan.tiles, plan.tile), y[:numbers].reshape(plan.tiles, plan.tile))


variant.allow_shared(100_000)


def tuned(mistake, seed):
    x = np.arange(LARGEST, dtype=np.float32)
    choices = {"stages": (2, 3, 4), "copies": (1, 2)}
    return cta.tune(variant, 1, (x, np.zeros_like(x), mistake, seed), choices, device="h200").rows


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_seeded_mistake_is_found_in_each_tuned_variant(mistake):
    for row in tuned(mistake, 2000):
        assert any(text.startswith(MISTAKES[mistake]) for text in row.findings), row
        assert row.failure.startswith(row.findings[0])
        assert row.us is None


@pytest.mark.parametrize("seed", range(2000, 2005))
def test_tuned_variants_of_a_right_pipeline_have_times_and_no_findings(seed):
    rows = tuned(None, seed)
    assert [row.findings for row in rows] == [()] * 6
    assert all(row.us for row in rows)
