"""What the sanitizer finds in samples and notebooks: only what they mean to show.

Each finding is named by its kind and its lines. Leaks do not count: most samples leave their memory to the end of the
program. The scripts of samples/acl, which free theirs, have no finding at all: see test_acl_scripts.py.
"""

import ast
import asyncio
import runpy
from pathlib import Path

import pytest

import acl_py
from acl_py.parts import PARTS_OF_SCRIPTS, parts_of
from acl_py.sanitizer.watch import watching
from tests.samples.notebooks import trouble
from tests.test_samples import LONG

FOLDER = Path(__file__).parent.parent.parent / "samples"
SAMPLES = [*sorted(FOLDER.glob("[0-9][0-9]_*.py")), *sorted((FOLDER / "aicore").glob("*.py"))]
APPS = [
    FOLDER / app
    for app in (
        "attention/five_stages.py", "attention/graph.py", "attention/streaming.py", "flash/aicore.py",
        "flash/tuning.py", "moe/graph.py", "moe/moe.py", "server/server.py",
    )
]  # fmt: skip
SLOW = [*APPS, *(sample for sample in SAMPLES if sample.stem in LONG)]
NOTEBOOKS = sorted((FOLDER / "notebooks").glob("[0-9]*_*.py"))

MEANT = {
    # The host writes to pinned memory that is still to be copied, and to pageable memory, where it may.
    "04_pinned_and_pageable": ["race 31 33"],
    # The kernel in a non-blocking stream does not wait for the one in the default stream.
    "06_nonblocking_and_per_thread": ["race 37 42"],
    # Free waits for the device, which is what this version costs; nothing promises that it does.
    "08_stream_ordered_allocation": ["relies 27 28"],
    # A wait for a stream while time is held, and two waits for one another; each names the lines of its chain.
    "10_deadlock": ["deadlock 26 24"],
    "12_deadlock_chain": ["deadlock 31 30 29 28 37 36 35 30", "deadlock 38 37 36 35 30 29 28 37"],
    # A copy and two frees that wait under CUDA's rules only, and one of the frees even there without a promise.
    "11_two_rules": ["relies 37 40", "race 31 34", "free in use 31 40", "free in use 37 40"],
    # One buffer without a barrier between its readers and its writers.
    "14_ping_pong": ["kernel 26 29"],
    # A copy without its wait, and then without its barrier.
    "17_forgotten_wait": ["kernel 21 27"] * 2,
    # Consumers that free a buffer before they read it.
    "18_mbarrier": ["kernel 41 31"],
    # A flag between pipes that is not there, twice.
    "forgotten_flag": ["kernel 34 40", "kernel 35 40"] * 2,
    # The consumer does not wait for the producer; the second exercise, before it is solved.
    "1_streams_in_ten_minutes": ["race 184 189", "race 276 277", "race 277 278"],
    # A non-blocking stream reads what the default stream fills; the second exercise, before it is solved.
    "2_who_waits_for_whom": ["race 259 261", "race 329 335"],
    # The host writes to pinned memory that is still to be copied.
    "3_pageable_memory": ["race 173 175"],
    # The host reads what may not have arrived, by intent and in the first exercise.
    "4_reading_too_early_and_measuring": ["race 74 77", "race 270 272"],
    # A free in another stream; the first exercise relies on frees that wait.
    "5_the_hidden_waits": [
        "before allocation 163 166",
        "free in use 164 166",
        "relies 275 276",
        "relies 274 277",
        "relies 275 277",
    ],
    # The host fills the memory of a graph for the next request before the last one was over.
    "6_the_host_is_the_bottleneck": ["race 177 186", "race 174 186"],
    # The memory of a client that gave up goes to the next one, also in the third exercise.
    "7_asyncio_and_devices": ["race 184 181", "race 182 181", "race 184 181", "race 182 181"],
    # Under ACL copies and frees wait for nothing; the exercises, before they are solved.
    "8_the_same_under_acl": [
        "race 139 140",
        "relies 162 163",
        "free in use 162 163",
        "race 299 300",
        "free in use 299 301",
        "race 357 354",
    ],
    # A copy into a buffer that is still read, and the first exercise, before it is solved.
    "10_attention_and_experts": ["race 133 130", "race 199 204"],
    # Two downloads that wait for nothing, the second also in the default stream, and the first exercise.
    "11_cuda_without_a_card": ["race 96 101", "race 140 141", "race 140 141", "race 324 325"],
    # All-reduces in a stream of their own without a wait behind them, and the second exercise.
    "12_why_everybody_waits": ["race 194 190", "race 194 190", "race 260 261", "race 261 262"],
    # A copy to another card that nothing waits for, and the third exercise, before it is solved.
    "13_from_card_to_card": ["race 212 217", "race 317 313"],
    # A wait that only looks needless is gone.
    "14_follow_the_advice": ["race 223 220", "race 227 223", "race 227 224"],
    # A cube that does not wait until Fixpipe has stored its tile.
    "15_one_product_in_six_steps": ["kernel 194 184"],
    # A missing flag, a missing barrier, and the first exercise, before it is solved.
    "9_inside_a_core": ["kernel 205 209", "kernel 234 237", "kernel 303 300", "kernel 306 303"],
    # The cores of a hasty kernel do not wait for each other, nor for their own copy.
    "reduction": ["kernel 46 37", "kernel 37 46"],
}


def text_of(finding):
    return " ".join([finding.kind.value, *(site.rpartition(":")[2] for site in finding.sites)])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(each, marks=pytest.mark.slow if each in APPS or each.stem in LONG else ())
        for each in [*SAMPLES, *APPS]
    ],
    ids=lambda sample: sample.stem,
)
def test_a_sample_has_the_findings_that_it_means_to_show(sample, capfd):
    with watching(parts_of(PARTS_OF_SCRIPTS)) as watch:
        runpy.run_path(str(sample), run_name="__main__")
    assert [text_of(finding) for finding in watch.findings] == MEANT.get(sample.stem, [])


def test_no_sample_is_named_that_is_not_there():
    assert set(MEANT) <= {sample.stem for sample in [*SAMPLES, *APPS, *NOTEBOOKS]}


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_has_the_findings_that_it_means_to_show(notebook, capfd):
    pytest.importorskip("matplotlib", reason="pip install -e '.[notebooks]'")
    if why := trouble(notebook):
        pytest.skip(why)
    code = compile(notebook.read_text(encoding="utf-8"), notebook.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    with watching(parts_of(PARTS_OF_SCRIPTS)) as watch, asyncio.Runner(loop_factory=acl_py.new_event_loop) as runner:
        runner.run(eval(code, {"__name__": "__main__"}))
    assert [text_of(finding) for finding in watch.findings] == MEANT.get(notebook.stem, [])
