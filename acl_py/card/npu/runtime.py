"""The runtime of a run on an Ascend card, and for which verbs pyACL has functions."""

import re
from collections.abc import Iterable, Mapping
from types import ModuleType

from acl_py.calls.table import Verb, all_verbs
from acl_py.card.contexts import CardDevice
from acl_py.card.memory import CardMemory
from acl_py.card.npu.contexts import NpuDevice
from acl_py.card.npu.driver import AclDriver
from acl_py.card.npu.streams import NpuStream, Outside
from acl_py.card.runtime import ANYWHERE, ONE_BY_ONE, CardRuntime
from acl_py.errors import DeviceError, Kind
from acl_py.verbs import callbacks, copy_batches, devices, failures, memory, pools, streams
from device_model.completions import Nanoseconds
from device_model.ops import Op
from device_model.streams import Stream

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_RENAMED = ("current_context", "context"), ("un_subscribe", "unsubscribe")  # words of C in pyACL
# The function of acl.rt that a verb needs is named after ACL's function in C, except for these.
_NEEDS = {
    callbacks.LaunchCallback.__name__: "wait_and_reset_notify",
    callbacks.LaunchHostFunc.__name__: "subscribe_report",
    memory.FreeWithDevSync.__name__: "free",
    memory.FreeHostWithDevSync.__name__: "free",
    streams.StreamGetPriority.__name__: "create_stream_with_config",
}
_ON_MODEL = "run the program on the model"
_SHARED = "end the process: torch_npu lives in the same context"
# What a run does not do, although ACL has a function for it.
_ELSEWHERE = {
    copy_batches.MemcpyBatchAsync.__name__: ONE_BY_ONE,
    devices.ResetDevice.__name__: _SHARED,
    devices.ResetDeviceForce.__name__: _SHARED,
    failures.SetExceptionInfoCallback.__name__: "look at what synchronising raises: the run does not see work fail",
    pools.MallocAsync.__name__: f"use {memory.Malloc.__name__}(): pyACL has no pools",
    pools.FreeAsync.__name__: f"use {memory.Free.__name__}(): pyACL has no pools",
}


def function_of(each: Verb) -> str | None:
    """Return the name of the function of acl.rt that the verb *each* needs; None if ACL has no such function."""
    if each.name in _NEEDS:
        return _NEEDS[each.name]
    if each.acl is None or not each.acl.startswith("aclrt"):
        return None
    name = _WORDS.sub("_", each.acl.removeprefix("aclrt")).lower()
    for word, here in _RENAMED:
        name = name.replace(word, here)
    return name


def refused(rt: ModuleType) -> dict[str, str]:
    """Return what to do in place of each verb for which *rt*, the module acl.rt, has no function."""
    here, remedies = {each.__name__ for each in ANYWHERE}, {}
    for name, each in all_verbs().items():
        function = function_of(each)
        if name in _ELSEWHERE:
            remedies[name] = _ELSEWHERE[name]
        elif function is None and name not in here:
            remedies[name] = f"pyACL has no such function: {_ON_MODEL}"
        elif function is not None and not hasattr(rt, function):
            remedies[name] = f"this module acl has no acl.rt.{function}: use that of a newer CANN, or {_ON_MODEL}"
    return remedies


class NpuRuntime(CardRuntime):
    """A run on Ascend cards."""

    driver: AclDriver

    def make_driver(self) -> AclDriver:
        """Return the driver, whose errors are those of the run."""
        return AclDriver(self.error)

    def refused(self) -> Mapping[str, str]:
        """Return what to do in place of each verb that the card does not do."""
        return refused(self.driver.rt)

    def make_memory(self) -> CardMemory:
        """Return the memory of the cards."""
        profile = self.profile
        return CardMemory([profile.memory.bytes] * profile.devices, profile.memory.alignment, self.error, self.driver)

    def make_card(self, number: int) -> CardDevice:
        """Return card *number*, which is current then."""
        return NpuDevice(self, number)

    def submit(self, stream: Stream, op: Op, cost: Nanoseconds, latency_ns: Nanoseconds) -> None:
        """Make the call that queues *op* in *stream*, or that does it outside all streams."""
        if isinstance(stream, Outside):
            stream.enqueue(op, 0)
        else:
            super().submit(stream, op, cost, latency_ns)

    def check_failures(self, streams: Iterable[Stream]) -> None:
        """Raise the first failure of *streams*, which pyACL tells when the host synchronises with one.

        A stream that has got more work since keeps its failure for the next synchronisation.
        """
        streams = list(streams)
        for stream in streams:
            assert isinstance(stream, NpuStream), f"{stream!r} is not of a card"
            if stream.destroyed is None and stream.idle:
                failure = self.driver.failure_of(stream.handle)  # asked in any case: the card forgets it then
                stream.error = stream.error or failure
        super().check_failures(streams)

    def drop_work(self) -> bool:
        """Drop the work that does not end."""
        why = DeviceError(Kind.STREAM_ABORTED, "the run is over, and its work did not end", "wait for it in the run")
        for context in self.contexts:
            context.make_current()
            for stream in list(context.all_streams()):
                context.device.abort(stream, why)
        return True
