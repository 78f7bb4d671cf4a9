"""The mixture of experts: right in all versions and modes, and worth its pipeline."""

import json
import re
from functools import partial
from pathlib import Path

import as_torch
import numpy as np
import pytest
from layer import HELD_OUT, digits, forward, random_layer, trained
from moe import LIMIT_S, jobs, limited, reference
from versions import VERSIONS, Job, naive, pipelined

import acl_py as acl
from acl_py import faults
from tests import forks

h200 = partial(acl.run, device="h200")
DATA = Path(__file__).parent.parent / "conformance" / "data" / "moe.json"
MEASURED = json.loads(DATA.read_text(encoding="utf-8"))["rows"]


def random_job(seed):
    rng = np.random.default_rng(seed)
    experts = int(rng.integers(1, 10))
    width, hidden, outputs = rng.integers(1, 48, 3)
    layer = random_layer(rng, width, hidden, outputs, experts, top_k=int(rng.integers(1, experts + 1)))
    tokens = rng.standard_normal((rng.integers(1, 200), width), np.float32)
    batch = int(rng.integers(1, len(tokens) + 1))
    return Job(layer, tokens, max(batch, len(tokens) // 8), None)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
@pytest.mark.parametrize("mode", ["dropless", "drop-pad"])
@pytest.mark.parametrize("seed", range(20))
def test_random_layers_compute_what_numpy_does(seed, mode, version):
    job = random_job(seed)
    if mode == "drop-pad":
        job = Job(job.layer, job.tokens, job.batch, job.layer.capacity(job.batch, factor=0.5 + seed / 20))
    np.testing.assert_allclose(h200(version, job).output, reference(job), rtol=1e-4, atol=1e-4)


def test_what_finds_no_room_is_dropped_first_choices_last():
    layer = random_layer(np.random.default_rng(0), width=4, hidden=4, outputs=4, experts=3, top_k=2)
    tokens = np.random.default_rng(1).standard_normal((10, 4), np.float32)
    assert not np.allclose(forward(layer, tokens, capacity=1), forward(layer, tokens))
    np.testing.assert_array_equal(forward(layer, tokens, capacity=20), forward(layer, tokens))
    assert np.count_nonzero(forward(layer, tokens, capacity=1).any(axis=1)) <= 3


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", jobs())
@pytest.mark.parametrize("mode", [0, 1], ids=["dropless", "drop-pad"])
def test_the_pipeline_is_worth_it(name, mode):
    job = jobs()[name][mode]
    assert h200(naive, job).ns >= 1.5 * h200(pipelined, job).ns


def test_digits_are_told_as_well_on_the_device_as_in_numpy():
    job = jobs()["digits"][0]
    told = h200(pipelined, job).output.argmax(axis=1)
    np.testing.assert_array_equal(told, forward(trained(), digits()[0]).argmax(axis=1))
    assert np.mean(told[HELD_OUT] == digits()[1][HELD_OUT]) > 0.95


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_on_a_device_that_hangs_a_version_ends_at_its_limit(version):
    async def on_a_hanging_device(job):
        sim = acl.current_simulation()
        sim.fault(faults.hang(op="kernel", nth=5))
        with pytest.raises(TimeoutError):
            await limited(version, job)
        return sim.now_ns

    assert h200(on_a_hanging_device, random_job(0)) == LIMIT_S * 1e9


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.slow if number else ()) for number, row in enumerate(MEASURED)],
    ids=lambda row: f"{row['tokens']}-{row['width']}",
)
def test_as_torch_calls_it_it_takes_what_torch_took_on_the_card(row):
    times = as_torch.times_of(as_torch.job_of(row))
    naive, pipelined = row["naive"]["us"], row["pipelined"]["us"]
    assert times["naive"] == pytest.approx(naive, rel=0.2)
    assert times["pipelined"] == pytest.approx(pipelined, rel=0.2)
    assert times["naive"] / times["pipelined"] == pytest.approx(naive / pipelined, rel=0.13)


def test_where_torch_holds_the_host_one_call_for_all_experts_is_worth_more_than_streams():
    times = as_torch.times_of(as_torch.WIDE)
    assert times["naive"] < 1.3 * times["pipelined"]
    assert times["pipelined"] > 1.5 * times["batched"]


def test_the_sample_has_the_stages_of_the_first_measured_job():
    assert as_torch.job_of(MEASURED[0]) == as_torch.WIDE


def test_the_command_line_prints_the_times_of_each_job_of_a_file(tmp_path):
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"rows": MEASURED[:1]}), encoding="utf-8")
    done = forks.run(Path(as_torch.__file__).with_name("moe.py"), "--as", "torch", file)
    names = re.findall(r"^ +(\w+) +[\d,]+ us", done.stdout, re.MULTILINE)
    assert names == [*as_torch.VERSIONS], done.stderr
