"""Links between devices: which way a transfer takes, and how transfers share links."""

from dataclasses import replace
from random import Random

import pytest

import acl_py as acl
from device_model.errors import ProfileError
from device_model.links.fabric import Links, Transfer
from device_model.links.spec import LinksSpec, Mesh, Network, Pcie, Switch
from device_model.profile import load
from device_model.scheduler import Scheduler

SWITCH = LinksSpec(switch=Switch(10**9, 10**9), mesh=None, pcie=None, network=None)  # a byte per nanosecond
CAPS = 0.05, 0.3, 0.7, 1.0, 2.0
MESH = LinksSpec(switch=None, mesh=Mesh(10**9), pcie=None, network=None)


class AllAnew(Links):
    """Links that compute the rates of all classes whenever a transfer begins or ends."""

    def _affected(self):
        super()._affected()
        return list(self._active[0])


def played(spec, transfers, kind=Links):
    """The time at which each of `(start, source, target, nbytes, cap)` ends."""
    scheduler = Scheduler()
    links = kind(scheduler, spec)
    ends = [0] * len(transfers)

    def start(each):
        index, source, target, nbytes, cap = each

        def on_end():
            ends[index] = scheduler.now

        links.start(Transfer(links.loads(source, target), nbytes, cap), on_end)

    for index, (at, *transfer) in enumerate(transfers):
        scheduler.at(at, start, (index, *transfer))
    scheduler.advance(10**9)
    return ends


def test_a_transfer_alone_takes_exactly_its_bytes_at_its_cap():
    assert played(SWITCH, [(5, 0, 1, 12_345, 0.5)]) == [5 + 24_690]
    assert played(None, [(5, 0, 1, 12_345, 3.0)]) == [5 + 4_115]


def test_transfers_into_one_device_share_its_link_and_the_one_left_goes_on_alone():
    assert played(SWITCH, [(0, 0, 2, 1_000, 1.0), (0, 1, 2, 2_000, 1.0)]) == [2_000, 3_000]
    assert played(MESH, [(0, 0, 2, 1_000, 1.0), (0, 1, 2, 2_000, 1.0)]) == [1_000, 2_000]


def test_what_a_cap_leaves_is_for_the_others_and_a_late_transfer_slows_one_that_runs():
    assert played(SWITCH, [(0, 0, 2, 200, 0.2), (0, 1, 2, 800, 1.0)]) == [1_000, 1_000]
    assert played(SWITCH, [(0, 0, 1, 1_000, 1.0), (500, 0, 2, 500, 1.0)]) == [1_500, 1_500]


def test_a_transfer_gets_the_rate_of_the_busiest_link_that_it_crosses():
    # The two into device 2 get half each, so device 0 has half of its link out for the one to device 1.
    assert played(SWITCH, [(0, 0, 2, 500, 1.0), (0, 3, 2, 500, 1.0), (0, 0, 1, 500, 1.0)]) == [1_000, 1_000, 1_000]


@pytest.mark.parametrize("seed", range(40))
def test_transfers_that_share_no_link_with_a_new_one_keep_their_rates(seed):
    """The ends are those of links that compute everything anew."""
    random = Random(seed)
    devices = random.choice([4, 8, 16])
    transfers = [
        (random.randrange(3_000), *random.sample(range(devices), 2), random.randrange(1, 5_000), random.choice(CAPS))
        for _ in range(60)
    ]
    assert played(SWITCH, transfers) == played(SWITCH, transfers, AllAnew)


def test_devices_of_one_network_card_share_it_and_servers_are_joined_by_nothing_else():
    spec = replace(SWITCH, network=Network(4, 2, 10**9, 700))
    assert spec.path(1, 5) == (("card out", 0), ("card in", 2))
    assert (spec.latency_ns(1, 5), spec.latency_ns(1, 3)) == (700, 0)
    assert played(spec, [(0, 0, 4, 500, 1.0), (0, 1, 6, 500, 1.0), (0, 2, 7, 500, 1.0)]) == [1_000, 1_000, 1_000]


def test_pcie_goes_through_the_host():
    spec = LinksSpec(switch=None, mesh=None, pcie=Pcie(2 * 10**9, 10**9), network=None)
    assert spec.path(0, 1) == (("to host", 0), ("from host", 1))
    assert played(spec, [(0, 0, 1, 1_000, 4.0), (0, 0, 2, 1_000, 4.0)]) == [1_000, 1_000]


def test_the_devices_of_a_server_are_joined_in_one_way():
    with pytest.raises(ProfileError, match=r"one of the tables links\.switch, links\.mesh and links\.pcie"):
        replace(SWITCH, mesh=Mesh(1))


def test_a_copy_to_another_server_arrives_later_by_the_hop():
    def end_of(links):
        profile = replace(load("tiny"), links=links)

        async def main():
            await acl.SetDevice(1)
            there = await acl.Malloc(1_000)
            await acl.DeviceEnablePeerAccess(0)
            await acl.SetDevice(0)
            await acl.DeviceEnablePeerAccess(1)
            here = await acl.Malloc(1_000)
            op = await acl.MemcpyAsync(there, 1_000, here, 1_000, acl.MemcpyKind.DEVICE_TO_DEVICE)
            await op
            return op.end_ns - op.start_ns

        return acl.run(main, device=profile)

    inside = end_of(SWITCH)
    assert end_of(replace(SWITCH, network=Network(1, 1, 10**9, 700))) == inside + 700
