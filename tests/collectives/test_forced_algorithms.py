"""The variables of the environment that force an algorithm, and which steps collectives take then."""

import pytest

import acl_py as acl
from device_model.collectives.timing.plan import plan
from device_model.profile import load

COUNT = 1 << 20
BYTES = 4 * COUNT


def algorithms(device, ranks=4):
    """The algorithms that an AllReduce, a Broadcast and an AlltoAll take, and how long they last."""

    async def main():
        lanes = []
        for number, comm in enumerate(await acl.CommInitAll(ranks)):
            await acl.SetDevice(number)
            lanes.append((comm, await acl.CreateStream(), await acl.Malloc(BYTES), await acl.Malloc(BYTES)))
        calls = (
            lambda comm, stream, send, recv: acl.AllReduce(
                send, recv, COUNT, "float32", acl.ReduceOp.SUM, comm, stream
            ),
            lambda comm, stream, send, _: acl.Broadcast(send, COUNT, "float32", 0, comm, stream),
            lambda comm, stream, send, recv: acl.AlltoAll(
                send, COUNT // ranks, "float32", recv, None, None, comm, stream
            ),
        )
        plans = []
        for call in calls:
            for number, lane in enumerate(lanes):
                await acl.SetDevice(number)
                await call(*lane)
            [exchange] = lanes[0][0].clique.exchanges.values()
            plans.append(lanes[0][0].clique.play.plan_of(exchange))
            await acl.SynchronizeStream(lanes[-1][1])
        ops = [op for op in acl.current_simulation().trace.timeline().ops if op.device == ranks - 1]
        return [(each.algorithm, op.end_ns - op.start_ns) for each, op in zip(plans, ops, strict=True)]

    return acl.run(main, device=device)


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
    (reduced, reduced_ns), (broadcast, _), (exchanged, _) = algorithms("ascend910b3")
    assert (reduced, exchanged) == (reduction, exchange)
    assert broadcast == (reduction if reduction in ("mesh", "ring") else "mesh"), "what it cannot do, it does not"
    spec = load("ascend910b3").collectives
    own = plan(spec, "all_reduce", BYTES, 4, algorithm=reduction)
    assert own.algorithm == reduced
    assert reduced_ns > 0


def test_the_algorithms_take_different_times(monkeypatch):
    times = {}
    for name in ("level0:fullmesh", "level0:ring", "level1:H-D_R", "level1:NHR"):
        monkeypatch.setenv("HCCL_ALGO", name)
        times[name] = algorithms("ascend910b3")[0][1]
    assert times["level0:fullmesh"] < min(times["level0:ring"], times["level1:H-D_R"], times["level1:NHR"])
    assert len(set(times.values())) > 2, times


@pytest.mark.parametrize(
    "value", ["ring", "level0:tree", "level1:NB", "level2:NHR", "level1:nhr", "allreduce=level0:NA;level1:ring"]
)
def test_other_values_of_hccl_algo_are_refused_with_those_that_there_are(monkeypatch, value):
    monkeypatch.setenv("HCCL_ALGO", value)
    with pytest.raises(
        ValueError, match=r"level0:NA, level0:ring, level0:fullmesh, level1:NA, level1:ring, level1:H-D_R"
    ):
        algorithms("ascend910b3")


@pytest.mark.parametrize(("algorithm", "protocol"), [("ring", "LL"), ("tree", "simple"), ("Ring", "LL128")])
def test_nccl_algo_and_proto_force_a_way(monkeypatch, algorithm, protocol):
    monkeypatch.setenv("NCCL_ALGO", algorithm)
    monkeypatch.setenv("NCCL_PROTO", protocol)
    (reduced, _), (broadcast, _), _ = algorithms("h200")
    assert reduced == algorithm.lower()
    assert broadcast == "ring"


@pytest.mark.parametrize("variable", ["NCCL_ALGO", "NCCL_PROTO"])
def test_other_values_for_nccl_are_refused(monkeypatch, variable):
    monkeypatch.setenv(variable, "fastest")
    with pytest.raises(ValueError, match=f"{variable}='fastest' must be one of"):
        algorithms("h200")
