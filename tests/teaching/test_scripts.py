"""A notebook runs a program as a script would: with a loop of its own, on the simulated clock."""

import asyncio

import pytest

import acl_py
from acl_py import teaching
from acl_py.teaching import scripts


async def sleep(seconds):
    await asyncio.sleep(seconds)
    return asyncio.get_running_loop(), acl_py.current_simulation().now_ns


@pytest.mark.parametrize("in_browser", [False, True])
async def test_a_program_runs_in_a_loop_of_its_own_with_or_without_threads(in_browser, monkeypatch):
    monkeypatch.setattr(scripts, "IN_BROWSER", in_browser)
    here, task = asyncio.get_running_loop(), asyncio.current_task()
    loop, now_ns = await teaching.run(sleep, 0.001, device="tiny")
    assert loop is not here
    assert now_ns == 1_000_000
    assert asyncio.get_running_loop() is here
    assert asyncio.current_task() is task
    await asyncio.sleep(0)
