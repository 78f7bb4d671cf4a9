"""Fault rules that strike core kernels, and those of them that meet the launches of other ranks."""

import numpy as np
import pytest
from core_kernels import on_device, read, simulation

import acl_py as acl
from acl_py import asc, faults

FP16, SUM = asc.HcclDataType.HCCL_DATA_TYPE_FP16, asc.HcclReduceOp.HCCL_REDUCE_SUM
N = 64


@asc.kernel
def summed(x: asc.In, y: asc.InOut, comm: object):
    hccl = asc.Hccl()
    hccl.Init(comm)
    hccl.Wait(hccl.AllReduce(x, y, N, FP16, SUM, commit=True))
    hccl.Finalize()


async def summed_on_two(rule):
    """Run the kernel on two ranks, on the first under *rule*; return y of each rank, or the error there."""
    async with simulation(rules="acl") as sim:
        ys, results = [], []
        with sim.fault(rule):
            for device, comm in enumerate(await acl.CommInitAll(2)):
                await acl.SetDevice(device)
                ys.append(await on_device(np.zeros(N, np.float16)))
                await summed[1](await on_device(np.full(N, device + 1, np.float16)), ys[-1], comm)
        for device, y in enumerate(ys):
            await acl.SetDevice(device)
            try:
                await acl.SynchronizeDevice()
                results.append(await read(y))
            except acl.AclError as error:
                results.append(str(error))
        return results


async def test_a_launch_that_fails_at_its_end_has_taken_part():
    failed, right = await summed_on_two(faults.fail(op="kernel", nth=1))
    assert "injected by fault rule fail(op='kernel', nth=1)" in failed
    assert right.tolist() == [3.0] * N


async def test_a_wrong_byte_of_one_rank_stays_there():
    wrong, right = await summed_on_two(faults.corrupt(op="kernel", nth=1))
    assert np.flatnonzero(wrong.view(np.uint8) != right.view(np.uint8)).tolist() == [N]
    assert right.tolist() == [3.0] * N


@asc.kernel
def divides_by_zero(x: asc.InOut):
    1 / 0  # noqa: B018 - it raises


async def test_a_kernel_that_fails_still_fails_if_a_rule_would_make_its_bytes_wrong():
    async with simulation() as sim:
        x = await on_device(np.ones(N, np.float16))
        with sim.fault(faults.corrupt(op="kernel")):
            await divides_by_zero[1](x)
        with pytest.raises(acl.AclError, match="ZeroDivisionError"):
            await acl.SynchronizeDevice()
