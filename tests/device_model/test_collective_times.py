"""The time of collectives: the vendor's choice, plans, and their steps on links that others use, too."""

from dataclasses import replace

import pytest

from device_model.collectives.timing.pairs import pairs_of
from device_model.collectives.timing.plan import plan
from device_model.collectives.timing.player import play
from device_model.collectives.timing.schedules import Step
from device_model.errors import ProfileError
from device_model.links.fabric import Links, Transfer
from device_model.links.spec import LinksSpec, Mesh, Network
from device_model.profile import load
from device_model.scheduler import Scheduler

TINY = load("tiny")  # links and channels of a byte per nanosecond and more, a start of 1,000 ns, steps of 100
CARD = load("h200")
MESH = LinksSpec(switch=None, mesh=Mesh(10**9), pcie=None, network=None)
WAY = TINY.collectives.ring_simple
WAYS = replace(TINY.collectives, mesh=WAY, halving_doubling=WAY, nhr=WAY)


def ends_of(plays, copies=(), spec=TINY.links):
    """When each of `(at, plan, devices)` ends, and then each copy of `(at, source, target, nbytes)`."""
    scheduler = Scheduler()
    links = Links(scheduler, spec)
    ends = {}
    for index, (at, what, devices) in enumerate(plays):
        play(what, links, devices, at, lambda end, index=index: ends.setdefault(index, end))

    def copy(each):
        index, source, target, nbytes = each
        transfer = Transfer(links.loads(source, target), nbytes, 10.0)
        links.start(transfer, lambda: ends.setdefault(index, scheduler.now))

    for index, (at, *asked) in enumerate(copies, len(plays)):
        scheduler.at(at, copy, (index, *asked))
    scheduler.advance(10**9)
    return [ends[index] for index in range(len(plays) + len(copies))]


def test_a_ring_passes_each_part_to_the_next_rank():
    ring = plan(TINY.collectives, "all_reduce", 4_000, 4)
    # 1,000 for the start, six steps of 100 and of 1,000 bytes, and 50 in which links idle.
    assert ends_of([(0, ring, (0, 1, 2, 3))]) == [1_000 + 600 + 6_000 + 50]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_on_a_mesh_all_to_all_takes_what_one_link_takes_for_the_bytes_of_one_pair(ranks):
    card, nbytes = load("ascend910b3"), 1 << 20
    [end] = ends_of([(0, plan(card.collectives, "all_to_all", ranks * nbytes, ranks), range(ranks))], (), card.links)
    link = nbytes / card.links.mesh.pair_bytes_per_second * 1e9
    idle = nbytes / card.collectives.pairs.one_way_bytes_per_second * 1e9 if ranks > 2 else 0
    assert end == pytest.approx(card.collectives.start + card.collectives.pairs.step + idle + link, abs=2)


def test_a_channel_with_more_ranks_than_warps_still_moves_bytes():
    spec = replace(CARD.collectives, channels=1, pairs=replace(CARD.collectives.pairs, warps=2))
    pairs, _ = pairs_of(spec, ((4_096,) * 8,) * 8)
    assert min(pair.cap for pair in pairs) == pytest.approx(spec.pairs.warp_bytes_per_second / 1e9 * 2 / 8 / 2)


def test_two_collectives_share_the_links_of_their_devices():
    ring = plan(TINY.collectives, "all_gather", 4_000, 2)
    alone = 1_000 + 100 + 100 + 2_000
    assert ends_of([(0, ring, (0, 1)), (0, ring, (2, 3))]) == [alone, alone]
    assert ends_of([(0, ring, (0, 1)), (0, ring, (0, 1))]) == [alone + 2_000, alone + 2_000]


def test_a_copy_between_two_devices_slows_a_collective_and_it_slows_the_copy():
    ring = plan(TINY.collectives, "all_gather", 4_000, 2)
    begin = 1_000 + 100 + 100
    assert ends_of([(0, ring, (0, 1))], [(begin, 0, 1, 1_000)]) == [begin + 3_000, begin + 2_000]


def test_a_plan_may_begin_later_than_now_and_ends_at_the_last_of_its_steps():
    sends = plan(TINY.collectives, "send", ((0, 500, 0), (0, 0, 0), (300, 0, 0)), 3)
    assert len(sends.tracks) == 2
    assert ends_of([(50, sends, (0, 1, 2))]) == [50 + 1_000 + 100 + 500]


def test_nothing_to_send_ends_where_it_begins():
    assert ends_of([(7, plan(TINY.collectives, "send", ((0, 0), (0, 0)), 2), (0, 1))]) == [7]


def test_a_mesh_scatters_sums_to_all_at_once_and_gathers_them():
    mesh = plan(load("ascend910b1").collectives, "all_reduce", 8_000, 8)
    assert (mesh.algorithm, len(mesh.tracks[0])) == ("mesh", 2)
    assert [(step.nbytes, len(step.hops)) for step in mesh.tracks[0]] == [(1_000, 56), (1_000, 56)]


@pytest.mark.parametrize(("algorithm", "ranks"), [("ring", 5), ("mesh", 5), ("halving_doubling", 8), ("nhr", 5)])
def test_each_algorithm_moves_as_many_bytes_and_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(algorithm, ranks):
    def sent(kind):
        [steps] = plan(WAYS, kind, 1_000 * ranks, ranks, algorithm=algorithm).tracks
        return [
            sum(step.nbytes for step in steps for source, _, _ in step.hops if source == rank) for rank in range(ranks)
        ]

    once = [1_000 * (ranks - 1)] * ranks
    assert sent("reduce_scatter") == once
    assert sent("all_gather") == once
    assert sent("all_reduce") == [2 * each for each in once]


def test_steps_follow_one_another_each_after_its_latency():
    def end(kind, algorithm, ranks):
        steps = plan(WAYS, kind, 1_000 * ranks, ranks, algorithm=algorithm)
        return ends_of([(0, steps, tuple(range(ranks)))], spec=MESH)

    assert end("all_gather", "nhr", 4) == [1_000 + (100 + 1_000) + (100 + 2_000)]
    assert end("all_gather", "nhr", 3) == [1_000 + (100 + 1_000) + (100 + 1_000)]
    assert end("reduce_scatter", "halving_doubling", 4) == [1_000 + (100 + 2_000) + (100 + 1_000)]
    assert end("all_reduce", "mesh", 4) == [1_000 + (100 + 1_000) + (100 + 1_000)]


def test_nhr_sends_most_first_when_it_scatters_and_last_when_it_gathers():
    def sizes(kind):
        [steps] = plan(WAYS, kind, 4_000, 4, algorithm="nhr").tracks
        return [step.nbytes for step in steps]

    assert sizes("reduce_scatter") == [2_000, 1_000]
    assert sizes("all_reduce") == [2_000, 1_000, 1_000, 2_000]


def test_in_a_mesh_a_rank_divides_its_channels_among_the_others():
    slow = replace(WAYS, mesh=replace(WAY, channel_bytes_per_second=3 * 10**8))  # twice 0.3 bytes a nanosecond
    steps = plan(slow, "all_gather", 4_000, 4, algorithm="mesh")
    assert ends_of([(0, steps, (0, 1, 2, 3))], spec=MESH) == [1_000 + 100 + 5_000]


def test_in_a_tree_the_ranks_between_two_others_do_twice_as_much():
    slow = replace(TINY.collectives, tree_simple=replace(WAY, channel_bytes_per_second=10**8))
    ends = [ends_of([(0, plan(slow, "all_reduce", 1_000, ranks, algorithm="tree"), range(ranks))]) for ranks in (2, 3)]
    chunk = 2 / 0.2  # of a byte for each channel
    assert ends == [[round(1_000 + 2 * (100 + chunk) + 5_000)], [round(1_000 + 4 * (100 + chunk) + 10_000)]]


def test_what_a_root_gives_and_gets_crosses_its_own_links():
    def hops(kind):
        tracks = plan(WAYS, kind, 3_000, 3, algorithm="mesh", root=1).tracks
        return sorted(hop[:2] for track in tracks for step in track for hop in step.hops)

    assert hops("broadcast") == hops("scatter") == [(1, 0), (1, 2)]
    assert hops("reduce") == [(0, 1), (2, 1)]


def test_a_rank_beyond_a_power_of_two_hands_its_bytes_over_and_gets_the_result():
    [steps] = plan(WAYS, "all_reduce", 1_000, 3, algorithm="halving_doubling").tracks
    assert [(step.nbytes, [hop[:2] for hop in step.hops]) for step in steps] == [
        (1_000, [(2, 0)]),
        (500, [(0, 1), (1, 0)]),
        (500, [(0, 1), (1, 0)]),
        (1_000, [(0, 2)]),
    ]


def test_channels_divide_their_warps_among_the_rounds_that_they_do():
    """Of four ranks each round has 8 channels of its own; 1 GiB needs 16, so each does two rounds."""

    def cap(ranks, nbytes):
        pairs, channels = pairs_of(CARD.collectives, ((nbytes // ranks,) * ranks,) * ranks)
        [rate] = {pair.cap for pair in pairs if pair.source != pair.target}
        return channels, round(rate, 3)

    assert cap(4, 1 << 27) == (32, 8 * 19.5)
    assert cap(4, 1 << 30) == (32, round(16 * 4 * 2.55, 3))  # of 20 warps 10 for each round, of which 4 receive
    assert cap(3, 1 << 27) == (12, 4 * 19.5)
    assert cap(3, 1 << 30) == (16, round(16 * 2 * 2.55, 3))  # 6 for each of three, of which 2 receive
    assert cap(2, 1 << 30) == (32, round(32 * 4 * 2.55, 3))


def test_a_send_one_way_is_faster_than_one_each_way():
    def caps(*counts):
        return [round(pair.cap, 3) for pair in pairs_of(CARD.collectives, counts)[0]]

    assert caps((0, 1 << 27), (0, 0)) == [round(16 * 33.4, 3)]
    assert caps((0, 1 << 27), (1 << 27, 0)) == [16 * 19.5] * 2


def test_the_receiver_still_copies_a_slot_when_the_last_byte_has_come():
    slots = replace(TINY.collectives, pairs=replace(TINY.collectives.pairs, chunk_bytes=10**6))
    one_way, each_way = (plan(slots, "send", counts, 2) for counts in (((0, 800), (0, 0)), ((0, 800), (800, 0))))
    assert ends_of([(0, one_way, (0, 1))]) == [1_000 + 100 + 800 // 8 // 10 + 800]  # of 10 bytes a nanosecond
    assert ends_of([(0, each_way, (0, 1))]) == [1_000 + 100 + round(800 / 2 / 9) + 800]


def test_sends_that_are_not_all_alike_have_a_track_each():
    def tracks(*counts):
        return len(plan(TINY.collectives, "send", counts, 3).tracks)

    assert tracks((0, 500, 500), (500, 0, 500), (500, 500, 0)) == 1
    assert tracks((0, 500, 0), (0, 0, 500), (500, 0, 0)) == 3
    assert tracks((0, 500, 500), (500, 0, 500), (500, 400, 0)) == 6


def test_pairwise_a_rank_sends_to_one_after_the_other():
    counts = ((0, 500, 1_000), (0, 0, 0), (0, 0, 0))
    at_once, in_turn = (plan(WAYS, "all_to_all", counts, 3, algorithm=each) for each in (None, "pairwise"))
    # Channels that turn from one peer to another leave the links idle for 100.
    assert ends_of([(0, at_once, (0, 1, 2))], spec=MESH) == [1_000 + 100 + 100 + 1_000]
    assert ends_of([(0, in_turn, (0, 1, 2))], spec=MESH) == [1_000 + (100 + 500) + (100 + 1_000)]


def test_one_rank_copies_with_all_of_its_channels():
    ends = [ends_of([(0, plan(TINY.collectives, kind, 20_000, 1), (0,))]) for kind in ("all_reduce", "all_to_all")]
    assert ends == [[1_000 + 1_000], [1_000 + 100 + 1_000]]


def test_a_card_with_collectives_has_a_way_to_do_them():
    with pytest.raises(ProfileError, match=r"collectives must have a way, such as the table collectives\.ring_simple"):
        replace(TINY.collectives, ring_simple=None)


def test_the_vendor_chooses_by_size_and_a_user_can_force():
    def way(nbytes, **forced):
        chosen = plan(CARD.collectives, "all_reduce", nbytes, 4, **forced)
        return chosen.algorithm, chosen.protocol

    assert [way(1 << bits) for bits in (10, 23, 27)] == [("ring", "LL"), ("ring", "LL128"), ("ring", "Simple")]
    assert way(1 << 30, algorithm="tree") == ("tree", "Simple")
    assert way(1 << 30, algorithm="tree", protocol="LL") == ("tree", "LL")
    with pytest.raises(ValueError, match=r"all_gather cannot be done by tree protocol; there are ring LL"):
        plan(CARD.collectives, "all_gather", 8, 4, algorithm="tree")
    with pytest.raises(ValueError, match=r"there is no collective 'gather'; there are all_reduce"):
        plan(CARD.collectives, "gather", 8, 4)


def test_a_large_send_takes_more_channels_than_its_share():
    channels = [
        plan(CARD.collectives, "send", nbytes, 4).channels for nbytes in (1_000, 1 << 20, 1 << 27, 1 << 28, 1 << 30)
    ]
    assert channels == [1, 8, 8, 16, 32]


def test_a_reduce_goes_the_way_of_a_broadcast_back_to_its_root():
    def hops(kind):
        [[step]] = plan(TINY.collectives, kind, 1_000, 3, root=1).tracks
        assert isinstance(step, Step)
        return [(source, target) for source, target, _ in step.hops]

    assert hops("broadcast") == [(1, 2), (2, 0)]
    assert hops("reduce") == [(2, 1), (0, 2)]


def test_each_step_of_a_ring_over_two_servers_takes_the_hop_of_the_network_longer():
    ring = plan(TINY.collectives, "all_gather", 4_000, 4)
    servers = replace(TINY.links, network=Network(2, 1, 10**9, 700))
    [inside], [across] = (ends_of([(0, ring, (0, 1, 2, 3))], spec=spec) for spec in (TINY.links, servers))
    assert across == inside + 3 * 700


def test_a_channel_of_one_warp_divides_its_time_among_all_other_ranks():
    spec, nbytes = load("ascend910b3").collectives, 1 << 20
    spec = replace(spec, pairs=replace(spec.pairs, warps=1))
    counts = tuple(tuple(nbytes if i != j else 0 for j in range(4)) for i in range(4))
    pairs, channels = pairs_of(spec, counts)
    one, _ = pairs_of(spec, ((0, nbytes), (0, 0)))
    assert (channels, len(pairs)) == (1, 12)
    assert [pair.cap for pair in pairs] == pytest.approx([spec.pairs.warp_bytes_per_second / 1e9 / 3 / 2] * 12)
    assert one[0].cap == min(spec.pairs.warp_bytes_per_second, spec.pairs.one_way_bytes_per_second) / 1e9
