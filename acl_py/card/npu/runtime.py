"""The runtime of a run on an Ascend card, and the functions of pyACL that stand behind each verb."""

from collections.abc import Iterable, Mapping
from types import ModuleType

from acl_py.calls.table import all_verbs
from acl_py.card.contexts import CardDevice
from acl_py.card.memory import CardMemory
from acl_py.card.npu.contexts import NpuDevice
from acl_py.card.npu.driver import AclDriver
from acl_py.card.npu.streams import NpuStream, Outside
from acl_py.card.runtime import ANYWHERE, CardRuntime
from acl_py.errors import DeviceError, Kind
from device_model.completions import Nanoseconds
from device_model.ops import Op
from device_model.streams import Stream

# The functions of acl.rt that each verb needs; none are needed where the run knows the answer itself.
CALLS: Mapping[str, tuple[str, ...]] = {
    "Malloc": ("malloc",),
    "Free": ("free",),
    "FreeWithDevSync": ("free",),
    "MallocHost": ("malloc_host",),
    "FreeHost": ("free_host",),
    "FreeHostWithDevSync": ("free_host",),
    "HostRegister": ("host_register_v2",),
    "HostUnregister": ("host_unregister",),
    "GetMemInfo": ("get_mem_info",),
    "PointerGetAttributes": (),
    "Memcpy": ("memcpy",),
    "MemcpyAsync": ("memcpy_async",),
    "Memcpy2d": ("memcpy2d",),
    "Memcpy2dAsync": ("memcpy2d_async",),
    "Memset": ("memset",),
    "MemsetAsync": ("memset_async",),
    "LaunchKernel": ("launch_callback", "subscribe_report", "process_report"),
    "LaunchHostFunc": ("launch_callback", "subscribe_report", "process_report"),
    "SubscribeReport": (),
    "UnsubscribeReport": (),
    "LaunchCallback": ("wait_and_reset_notify", "record_notify"),
    "ProcessReport": (),
    "CreateStream": ("create_stream", "create_stream_with_config"),
    "CreateStreamWithConfig": ("create_stream", "create_stream_with_config"),
    "DestroyStream": ("destroy_stream",),
    "DestroyStreamForce": ("stream_abort", "destroy_stream"),
    "StreamAbort": ("stream_abort",),
    "StreamQuery": ("stream_query",),
    "SynchronizeStream": ("stream_query", "synchronize_stream"),
    "SynchronizeStreamWithTimeout": ("stream_query", "synchronize_stream"),
    "SynchronizeDevice": ("stream_query", "synchronize_stream"),
    "SynchronizeDeviceWithTimeout": ("stream_query", "synchronize_stream"),
    "DeviceGetStreamPriorityRange": (),
    "StreamGetPriority": (),
    "GetStreamAvailableNum": ("get_stream_available_num",),
    "SetStreamFailureMode": ("set_stream_failure_mode",),
    "SetOpWaitTimeOut": ("set_op_wait_timeout",),
    "SetOpExecuteTimeOut": (),
    "CreateEvent": ("create_event",),
    "CreateEventWithFlag": ("create_event_with_flag",),
    "CreateEventExWithFlag": ("create_event_ex_with_flag",),
    "DestroyEvent": ("destroy_event",),
    "RecordEvent": ("record_event",),
    "ResetEvent": ("reset_event",),
    "StreamWaitEvent": ("stream_wait_event",),
    "QueryEventStatus": ("query_event_status",),
    "QueryEventWaitStatus": ("query_event_wait_status",),
    "SynchronizeEvent": ("query_event_status",),
    "SynchronizeEventWithTimeout": ("query_event_status",),
    "EventElapsedTime": ("event_elapsed_time",),
    "GetEventTimestamp": ("event_get_timestamp",),
    "GetEventAvailNum": ("get_event_avail_num",),
    "CreateNotify": ("create_notify",),
    "DestroyNotify": ("destroy_notify",),
    "RecordNotify": ("record_notify",),
    "WaitAndResetNotify": ("wait_and_reset_notify",),
    "ResetNotifies": ("notify_batch_reset",),
    "ValueWrite": ("value_write",),
    "ValueWait": ("value_wait",),
    "SetDevice": ("set_device", "set_context"),
    "SetCurrentContext": ("set_context",),
    "CreateContext": ("create_context",),
    "DestroyContext": ("destroy_context",),
    "DeviceCanAccessPeer": ("device_can_access_peer",),
    "DeviceEnablePeerAccess": ("device_enable_peer_access",),
    "DeviceDisablePeerAccess": ("device_disable_peer_access",),
    "DevicePeerAccessStatus": (),
    "GetDevice": (),
    "GetDeviceCount": (),
    "GetRunMode": (),
    "GetCurrentContext": (),
    "GetLastError": (),
    "PeekAtLastError": (),
}
_ON_MODEL = "run the program on the model"
_ELSEWHERE = {
    "MallocAsync": "use Malloc()",
    "FreeAsync": "use Free()",
    "ResetDevice": "end the process: torch_npu lives in the same context",
    "ResetDeviceForce": "end the process: torch_npu lives in the same context",
    "SetExceptionInfoCallback": "look at the errors of SynchronizeStream(): the run does not see work fail",
}


def refused(rt: ModuleType) -> dict[str, str]:
    """Return what to do in place of each verb for which *rt*, the module acl.rt, has no functions."""
    here, remedies = {each.__name__ for each in ANYWHERE}, {}
    for name in all_verbs():
        missing = next((each for each in CALLS.get(name, ()) if not hasattr(rt, each)), None)
        if name in _ELSEWHERE:
            remedies[name] = f"pyACL has no such function, or not for a run: {_ELSEWHERE[name]}"
        elif missing is not None:
            remedies[name] = f"this module acl has no acl.rt.{missing}: use one of a newer CANN, or {_ON_MODEL}"
        elif name not in CALLS and name not in here:
            remedies[name] = f"pyACL has no such function: {_ON_MODEL}"
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
