"""Kernels after folders of public repositories: each leaves what NumPy computes, and none has a mistake."""

from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from core_kernels import on_device, read, simulation
from public.cases import CASES, RANKED

import acl_py as acl
from tests.aicore.names import REPOSITORIES
from tests.aicore.shown import report

for module in sorted(Path(__file__).with_name("public").glob("*.py")):
    import_module(f"public.{module.stem}")

# Findings that a card's kernel has, too, and why they are right: kernel -> rule -> the reason.
_ONE_QUEUE = "the folder copies out from a buffer of its VECIN queue, which orders MTE2 and V only"
_UNUSED = "the folder copies piece after piece to one place, and uses none of them"
JUSTIFIED = {"clear_l2_cache": {"WAW": _UNUSED}, "real": {"RAW": _ONE_QUEUE, "WAR": _ONE_QUEUE}}


def test_there_are_forty_and_five_of_each_repository():
    cases = [*CASES, *RANKED]
    repositories = Counter(case.folder.split("/")[0] for case in cases)
    assert set(repositories) == set(REPOSITORIES)
    assert min(repositories.values()) >= 5
    assert len({case.folder for case in cases}) == len(cases) >= 40


def test_they_are_counted_by_repository():
    lines = list(report(CASES, [None] * 30))
    assert lines[-1] == f"{'together':16}{len(CASES):4} kernels, 30 planted mistakes"
    assert sum(int(line.split()[1]) for line in lines[:-1]) == len(CASES)
    assert any(case.folder in line for line in report(CASES, [], folders=True) for case in CASES[:1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel.name)
async def test_a_kernel_of_a_public_folder_gives_what_numpy_gives(case):
    given, wanted = case.data(np.random.default_rng(7))
    async with simulation() as sim:
        arguments = {name: np.zeros_like(array) for name, array in wanted.items()} | given
        on_card = {
            name: await on_device(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value
            for name, value in arguments.items()
        }
        await case.kernel[case.blocks](**on_card)
        await acl.SynchronizeDevice()
        for name, expected in wanted.items():
            result = (await read(on_card[name])).reshape(expected.shape)
            assert np.allclose(
                result.astype(np.float64), expected.astype(np.float64), rtol=case.tolerance, atol=case.tolerance
            ), name
        reasons = JUSTIFIED.get(case.kernel.name, {})
        assert [str(finding) for finding in sim.findings if finding.rule.name not in reasons] == []
        assert {finding.rule.name for finding in sim.findings} == set(reasons)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("case", RANKED, ids=lambda case: case.kernel.name)
async def test_a_kernel_that_asks_for_collectives_gives_on_each_rank_what_numpy_gives(case, ranks):
    data = case.data(np.random.default_rng(7), ranks)
    async with simulation() as sim:
        on_card = []
        for device, (comm, (given, wanted)) in enumerate(zip(await acl.CommInitAll(ranks), data, strict=True)):
            await acl.SetDevice(device)
            arguments = {name: np.zeros_like(array) for name, array in wanted.items()} | given
            on_card.append(
                {
                    name: await on_device(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value
                    for name, value in arguments.items()
                }
            )
            await case.kernel[case.blocks](**on_card[-1], comm=comm)
        for device, (_, wanted) in enumerate(data):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
            for name, expected in wanted.items():
                result = (await read(on_card[device][name])).reshape(expected.shape)
                assert np.array_equal(result, expected), (device, name)
        assert [str(finding) for finding in sim.findings] == []
