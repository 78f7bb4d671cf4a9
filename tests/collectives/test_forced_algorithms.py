"""The variables of the environment that force an algorithm, and which steps collectives take then."""

import pytest

import acl_py as acl
from device_model.collectives.timing.plan import plan
from device_model.collectives.timing.player import play
from device_model.links.fabric import Links
from device_model.profile import load
from device_model.scheduler import Scheduler

COUNT = 1 << 20
BYTES = 4 * COUNT


def times(device, ranks=4):
    """How many nanoseconds an AllReduce, a Broadcast and an AlltoAll take once all ranks have called."""

    async def main():
        lanes = []
        for number, comm in enumerate(await acl.CommInitAll(ranks)):
            await acl.SetDevice(number)
            lanes.append((comm, await acl.CreateStream(), await acl.Malloc(BYTES), await acl.Malloc(BYTES)))
        for number, (comm, stream, send, recv) in enumerate(lanes):
            await acl.SetDevice(number)
            await acl.AllReduce(send, recv, COUNT, "float32", acl.ReduceOp.SUM, comm, stream)
        await acl.SynchronizeDevice()
        for number, (comm, stream, send, _) in enumerate(lanes):
            await acl.SetDevice(number)
            await acl.Broadcast(send, COUNT, "float32", 0, comm, stream)
        await acl.SynchronizeDevice()
        for number, (comm, stream, send, recv) in enumerate(lanes):
            await acl.SetDevice(number)
            await acl.AlltoAll(send, COUNT // ranks, "float32", recv, None, None, comm, stream)
        await acl.SynchronizeDevice()
        ops = acl.current_simulation().trace.timeline().ops
        return [op.end_ns - op.start_ns for op in ops if op.device == ranks - 1]

    return acl.run(main, device=device)


def expected(device, kind, algorithm, protocol=None, ranks=4):
    """How many nanoseconds a collective takes with this *algorithm*; None is the vendor's choice."""
    card, ends = load(device), []
    scheduler = Scheduler()
    own = plan(card.collectives, kind, BYTES, ranks, algorithm=algorithm, protocol=protocol)
    play(own, Links(scheduler, card.links), range(ranks), 0, ends.append)
    scheduler.advance(10**9)
    return ends[0]


@pytest.mark.parametrize(
    ("value", "reduction", "exchange"),
    [
        ("", "mesh", "pairs"),
        ("level0:NA", "mesh", "pairs"),
        ("level0:ring", "ring", "pairs"),
        ("level0:fullmesh", "mesh", "pairs"),
        ("level0:NA;level1:ring", "ring", "pairs"),
        ("level0:NA;level1:H-D_R", "halving_doubling", "pairs"),
        ("level1:NHR", "nhr", "pairs"),
        ("level0:NA;level1:pairwise", "mesh", "pairwise"),
        ("level0:fullmesh;level1:NHR", "mesh", "pairs"),
    ],
)
def test_hccl_algo_forces_an_algorithm_of_either_level(monkeypatch, value, reduction, exchange):
    monkeypatch.setenv("HCCL_ALGO", value)
    card = "ascend910b3"
    others = reduction if reduction in ("mesh", "ring") else "mesh"  # a broadcast has no halving and no NHR
    assert times(card) == [
        expected(card, "all_reduce", reduction),
        expected(card, "broadcast", others),
        expected(card, "all_to_all", None if exchange == "pairs" else exchange),
    ]


def test_the_algorithms_take_different_times():
    mesh, *others = (expected("ascend910b3", "all_reduce", name) for name in ("mesh", "ring", "halving_doubling"))
    assert len({mesh, *others}) == 3
    assert mesh < min(others)
    pairs, in_turn = (expected("ascend910b3", "all_to_all", name) for name in (None, "pairwise"))
    assert pairs < in_turn


@pytest.mark.parametrize(
    "value", ["ring", "level0:tree", "level1:NB", "level2:NHR", "level1:nhr", "allreduce=level0:NA;level1:NB"]
)
def test_other_values_of_hccl_algo_are_refused_with_those_that_there_are(monkeypatch, value):
    monkeypatch.setenv("HCCL_ALGO", value)
    with pytest.raises(
        ValueError, match=r"level0:NA, level0:ring, level0:fullmesh, level1:NA, level1:ring, level1:H-D_R"
    ):
        times("ascend910b3")


@pytest.mark.parametrize(
    ("value", "reduction", "exchange"),
    [
        ("allreduce=level0:NA;level1:ring", "ring", "pairs"),
        ("allreduce=level0:NA;level1:NHR/alltoall=level0:NA;level1:pairwise", "nhr", "pairwise"),
        ("allgather=level0:NA;level1:ring/alltoall=level0:NA;level1:pairwise", "mesh", "pairwise"),
        ("allreduce=level0:NA;level1:NA", "mesh", "pairs"),
    ],
)
def test_hccl_algo_forces_an_algorithm_for_an_operator(monkeypatch, value, reduction, exchange):
    monkeypatch.setenv("HCCL_ALGO", value)
    card = "ascend910b3"
    assert times(card) == [
        expected(card, "all_reduce", reduction),
        expected(card, "broadcast", "mesh"),  # it is not named, so it is the library's choice
        expected(card, "all_to_all", None if exchange == "pairs" else exchange),
    ]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("barrier=level0:ring", "'barrier=level0:ring' does not begin with an operator"),
        ("AllReduce=level0:ring", "'AllReduce=level0:ring' does not begin with an operator"),
        ("allreduce=level0:ring/level1:NHR", "'level1:NHR' does not begin with an operator"),
        ("allreduce=level0:ring/allreduce=level0:NA", "allreduce is there twice"),
    ],
)
def test_other_operators_in_hccl_algo_are_refused(monkeypatch, value, what):
    monkeypatch.setenv("HCCL_ALGO", value)
    with pytest.raises(ValueError, match=what):
        times("ascend910b3")


@pytest.mark.parametrize(("algorithm", "protocol"), [("ring", "LL"), ("tree", "Simple"), ("Ring", "LL128")])
def test_nccl_algo_and_proto_force_a_way(monkeypatch, algorithm, protocol):
    monkeypatch.setenv("NCCL_ALGO", algorithm)
    monkeypatch.setenv("NCCL_PROTO", protocol)
    assert times("h200")[0] == expected("h200", "all_reduce", algorithm.lower(), protocol)


@pytest.mark.parametrize("variable", ["NCCL_ALGO", "NCCL_PROTO"])
def test_other_values_for_nccl_are_refused(monkeypatch, variable):
    monkeypatch.setenv(variable, "fastest")
    with pytest.raises(ValueError, match=f"{variable}='fastest' must be one of"):
        times("h200")
