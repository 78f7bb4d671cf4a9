"""The driver beside the native API and the module `acl`: one simulation, one device."""

import ctypes

import structlog

import acl_py
from acl_py import log
from acl_py.compat import cuda as switch
from acl_py.compat.acl import install as install_acl
from acl_py.compat.acl import object_of, uninstall
from tests.cuda.calling import OUT, Cuda
from tests.cuda.conftest import driver


async def test_inside_a_simulation_calls_go_to_it_and_wait_in_place():
    switch.install(device="tiny")
    try:
        async with acl_py.simulate(device="tiny", rules="cuda") as sim:
            cuda = Cuda()
            cuda.begin()
            code, stream = cuda.get("cuStreamCreate", OUT, 1)
            device = cuda.allocate(1000)
            codes = [cuda("cuMemsetD8Async", device, 3, 1000, stream), cuda("cuStreamSynchronize", stream)]
            assert (code, codes) == (0, [0, 0])
            native = await acl_py.Malloc(1000)
            await acl_py.Memcpy(native, 1000, device, 1000, acl_py.MemcpyKind.DEVICE_TO_DEVICE)
            await acl_py.SynchronizeDevice()
            result = (ctypes.c_uint8 * 1000)()
            assert cuda("cuMemcpyDtoH_v2", result, native.address, 1000) == 0
            assert (list(result), cuda("cuMemFree_v2", device)) == ([3] * 1000, 0)
            await acl_py.Free(native)
        assert [row.name for row in sim.trace.timeline().ops] == ["fill", "d2d", "d2h"]
    finally:
        switch.uninstall()


async def test_the_current_context_of_a_task_is_its_own_again_behind_a_call():
    switch.install(device="tiny")
    try:
        async with acl_py.simulate(device="tiny", rules="cuda"):
            await acl_py.SetDevice(1)
            before = await acl_py.GetCurrentContext()
            cuda = Cuda()
            cuda.begin(0)
            assert cuda.get("cuCtxGetDevice", OUT) == (0, 0)
            assert (await acl_py.GetCurrentContext(), await acl_py.GetDevice()) == (before, 1)
            assert cuda.get("cuCtxGetDevice", OUT) == (0, 0)
    finally:
        switch.uninstall()


def test_acl_and_the_driver_share_the_session_of_the_process():
    acl = install_acl(device="tiny", rules="cuda")
    try:
        switch.switching.begin()
        assert (acl.init(), acl.rt.set_device(0)) == (0, 0)
        address, code = acl.rt.malloc(100, 0)
        cuda = Cuda()
        cuda.begin()
        result = (ctypes.c_uint8 * 100)()
        codes = [cuda("cuMemsetD8_v2", address, 7, 100), cuda("cuMemcpyDtoH_v2", result, address, 100)]
        assert (code, codes, list(result)) == (0, [0, 0], [7] * 100)
        assert (acl.rt.free(address), cuda("cuMemFree_v2", address)) == (0, 1)
        stream, code = acl.rt.create_stream()
        assert (code, object_of(stream).context.device.ordinal) == (0, 0)
    finally:
        uninstall()


def test_log_events_of_a_call_have_the_context_variables_of_the_program():
    events = []
    stop = structlog.DropEvent

    def keep(*event):
        events.append((event[2]["event"], event[2].get("request")))
        raise stop

    with driver("tiny") as cuda:
        device = cuda.allocate(64)
        structlog.contextvars.bind_contextvars(request=1)
        log.enable(structlog.wrap_logger(None, [structlog.contextvars.merge_contextvars, keep]))
        try:
            codes = [cuda("cuMemsetD8Async", device, 1, 64, 0), cuda("cuMemFree_v2", 1), cuda("cuCtxSynchronize")]
        finally:
            log.disable()
            structlog.contextvars.clear_contextvars()
    assert (codes, {request for _, request in events}) == ([0, 1, 0], {1})
    assert {"queued", "ended", "failed", "SynchronizeDevice"} <= {event for event, _ in events}
