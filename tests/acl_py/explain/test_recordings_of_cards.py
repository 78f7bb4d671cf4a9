"""Recordings of a card have prices by a model, which the notes name."""

from dataclasses import replace

import acl_py
from acl_py.explain.recordings import asker_of, case_of
from device_model.profile import load


async def _fill():
    buffer = await acl_py.Malloc(64)
    await acl_py.Memset(buffer, 64, 1, 64)
    await acl_py.SynchronizeDevice()
    return acl_py.current_simulation().trace.timeline()


def test_the_profile_is_the_nearest_one_and_the_prices_are_the_models():
    timeline = replace(acl_py.run(_fill, device="h200"), device="NVIDIA H200")
    asker = asker_of(timeline, "run")
    assert (asker.case.device.name, len(asker.timeline.ops)) == ("h200", 1)
    assert asker.case.notes == ("what NVIDIA H200 itself would take: the prices are those of the model, h200",)


def test_the_profile_can_be_named():
    timeline = acl_py.run(_fill, device="h200")
    case = case_of(timeline, "run", load("tiny"))
    assert case.device == load("tiny")
    assert case.notes == ("what h200 itself would take: the prices are those of the model, tiny",)


def test_a_card_without_a_profile_of_its_name_has_the_usual_one_of_its_rules():
    timeline = acl_py.run(_fill, device="h200", rules="cuda_per_thread")
    assert case_of(replace(timeline, device="NVIDIA RTX 5090"), "run").device.name == "h200"
    assert case_of(replace(timeline, device="Ascend910X", rules="acl"), "run").device.name == "ascend910b3"
