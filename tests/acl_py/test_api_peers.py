"""Copies between two devices: their way, their time, and the access that they need."""

import numpy as np
import pytest
from histories import D2D, D2H, H2D, busy, calls, history, refused, tiny

import acl_py as acl

MIB = 1 << 20


async def _pair(nbytes):
    """Memory of *nbytes* on devices 0 and 1; device 0 is current."""
    await acl.SetDevice(1)
    there = await acl.Malloc(nbytes)
    await acl.SetDevice(0)
    return await acl.Malloc(nbytes), there


async def _to_the_other(nbytes, *, access):
    """Microseconds of a copy from device 0 to device 1: of its call, and from then until its stream is idle."""
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    here, there = await _pair(nbytes)
    if access:
        await acl.DeviceEnablePeerAccess(1)
    begin = sim.now_ns
    await acl.MemcpyAsync(there, nbytes, here, nbytes, D2D, stream)
    held = sim.now_ns - begin
    await acl.SynchronizeStream(stream)
    return held / 1000, (sim.now_ns - begin) / 1000


@pytest.mark.parametrize(("nbytes", "us"), [(MIB, 13.1), (64 * MIB, 182), (256 * MIB, 689)])
@tiny(device="h200")
async def test_a_copy_between_devices_takes_as_long_as_between_two_cards(nbytes, us):
    _, whole = await _to_the_other(nbytes, access=True)
    assert whole == pytest.approx(us, rel=0.05)


@tiny(device="h200")
async def test_without_access_a_copy_between_devices_goes_through_the_host_which_is_held():
    held, whole = await _to_the_other(64 * MIB, access=False)
    assert held == pytest.approx(210, rel=0.05)
    assert 64 * MIB / whole / 1000 == pytest.approx(38, rel=0.05)  # GB/s
    _, small = await _to_the_other(4_096, access=False)
    assert small == pytest.approx(65, rel=0.05)


@tiny
async def test_a_copy_between_devices_has_an_engine_of_its_own_and_moves_the_bytes():
    sim, a, b, c = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateStream(),
    )
    here, there = await _pair(4_000)
    host, back = await acl.MallocHost(4_000), np.zeros(4_000, np.uint8)
    await acl.Memset(here, 4_000, 7, 4_000)
    await acl.DeviceEnablePeerAccess(1)
    await acl.SynchronizeDevice()
    begin = sim.now_ns
    await acl.LaunchKernel(busy("k", 10), 1, (), a)
    await acl.MemcpyAsync(await acl.Malloc(4_000), 4_000, host, 4_000, H2D, b)
    await acl.MemcpyAsync(there, 4_000, here, 4_000, D2D, c)
    await acl.MemcpyAsync(there, 2_000, here, 2_000, D2D, b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [
        ("k", 1_000, 11_000),
        ("h2d", 3_000, 7_000),
        ("p2p", 4_000, 8_000),
        ("p2p", 8_000, 10_000),  # one at a time
    ]
    assert [op.engine for op in sim.trace.ops][-4:] == ["H2D", "P2P", "P2P", "cores"]
    await acl.Memcpy(back, 4_000, there, 4_000, D2H)
    assert set(back.tolist()) == {7}


@tiny
async def test_synchronous_copies_between_devices_are_only_queued_as_those_inside_one():
    sim, (here, there) = acl.current_simulation(), await _pair(4_000)
    await acl.DeviceEnablePeerAccess(1)
    begin = sim.now_ns
    await acl.Memcpy(there, 4_000, here, 4_000, D2D)
    await acl.DeviceDisablePeerAccess(1)
    await acl.Memcpy(there, 4_000, here, 4_000, acl.MemcpyKind.DEFAULT)
    await acl.Memcpy2dAsync(there, 50, here, 50, 50, 40, D2D)
    await acl.SynchronizeDevice()
    assert calls(sim, begin)[:-1] == [
        ("Memcpy", 0, 1_000),
        ("DeviceDisablePeerAccess", 1_000, 2_000),
        ("Memcpy", 2_000, 7_000),  # the host takes part, one nanosecond a byte
        ("Memcpy2dAsync", 7_000, 10_000),
    ]
    assert history(sim, begin) == [("p2p", 1_000, 5_000), ("p2p", 7_000, 15_000), ("p2p", 15_000, 19_000)]


@pytest.mark.parametrize("device", [0, 1])
@tiny(rules="acl")
async def test_under_acls_rules_a_copy_between_devices_needs_access_one_way(device):
    here, there = await _pair(64)
    stream = await acl.CreateStream()
    await acl.MemcpyAsync(there, 64, here, 64, D2D, stream)
    with pytest.raises(acl.AclError, match=r"\(507053\).* neither device has access .* DeviceEnablePeerAccess\(1\)"):
        await acl.SynchronizeStream(stream)
    with pytest.raises(acl.AclError, match=r"\(507053\).* neither device has access"):
        await acl.Memcpy(there, 64, here, 64, D2D)
    await acl.SetDevice(device)
    await acl.DeviceEnablePeerAccess(1 - device)
    await acl.DeviceEnablePeerAccess(1 - device)  # again: nothing happens
    await acl.SetDevice(0)
    await acl.MemcpyAsync(there, 64, here, 64, D2D, stream)
    await acl.Memcpy(there, 64, here, 64, D2D)
    await acl.SynchronizeStream(stream)


@tiny
async def test_access_is_one_way_given_and_taken_and_ends_with_either_device():
    async def access():
        return [await acl.DevicePeerAccessStatus(*pair) for pair in ((0, 1), (1, 0))]

    assert [await acl.DeviceCanAccessPeer(0, 1), await acl.DeviceCanAccessPeer(1, 1)] == [True, False]
    assert await access() == [False, False]
    await acl.DeviceEnablePeerAccess(1)
    assert await access() == [True, False]
    with refused(acl.Kind.PEER_ACCESS_ENABLED, "(704)", "device 1"):
        await acl.DeviceEnablePeerAccess(1)
    await acl.DeviceDisablePeerAccess(1)
    assert await access() == [False, False]
    with refused(acl.Kind.PEER_ACCESS_MISSING, "(705)", "device 1"):
        await acl.DeviceDisablePeerAccess(1)
    for device in (0, 1):
        await acl.DeviceEnablePeerAccess(1)
        await acl.ResetDevice(device)
        assert await access() == [False, False]
    with refused(acl.Kind.INVALID_VALUE, "to itself"):
        await acl.DeviceEnablePeerAccess(0)
    with refused(acl.Kind.INVALID_VALUE, "flags 1"):
        await acl.DeviceEnablePeerAccess(1, 1)
    with refused(acl.Kind.INVALID_DEVICE, "no device 2"):
        await acl.DeviceEnablePeerAccess(2)
