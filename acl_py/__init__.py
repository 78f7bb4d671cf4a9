"""acl_py: streams, events and kernels of Ascend ACL and CUDA on a simulated device, in deterministic time.

The verbs are aclrt's without the prefix, all of them coroutines. Layers, each of which imports only those below:

    cli, programs                    the command line, stream programs
    simulation                       run, simulate, open
    devices memory copies fills streams events kernels callbacks host     the verbs, one noun each
    runtime, bridge, blocking, trace
    device_model                     the device: no asyncio, no wall clock
"""

from acl_py.arrays import Array as Array
from acl_py.arrays import In as In
from acl_py.arrays import InOut as InOut
from acl_py.arrays import Out as Out
from acl_py.callbacks import CallbackBlock as CallbackBlock
from acl_py.callbacks import LaunchCallback as LaunchCallback
from acl_py.callbacks import LaunchHostFunc as LaunchHostFunc
from acl_py.callbacks import ProcessReport as ProcessReport
from acl_py.callbacks import SubscribeReport as SubscribeReport
from acl_py.callbacks import UnsubscribeReport as UnsubscribeReport
from acl_py.copies import Memcpy as Memcpy
from acl_py.copies import Memcpy2d as Memcpy2d
from acl_py.copies import Memcpy2dAsync as Memcpy2dAsync
from acl_py.copies import MemcpyAsync as MemcpyAsync
from acl_py.copies import MemcpyAsyncWithCondition as MemcpyAsyncWithCondition
from acl_py.copies import MemcpyKind as MemcpyKind
from acl_py.devices import Context as Context
from acl_py.devices import CreateContext as CreateContext
from acl_py.devices import DestroyContext as DestroyContext
from acl_py.devices import Finalize as Finalize
from acl_py.devices import GetCurrentContext as GetCurrentContext
from acl_py.devices import GetDevice as GetDevice
from acl_py.devices import GetDeviceCount as GetDeviceCount
from acl_py.devices import Init as Init
from acl_py.devices import ResetDevice as ResetDevice
from acl_py.devices import ResetDeviceForce as ResetDeviceForce
from acl_py.devices import SetCurrentContext as SetCurrentContext
from acl_py.devices import SetDevice as SetDevice
from acl_py.devices import SynchronizeDevice as SynchronizeDevice
from acl_py.devices import SynchronizeDeviceWithTimeout as SynchronizeDeviceWithTimeout
from acl_py.errors import AclError as AclError
from acl_py.errors import DeadlockError as DeadlockError
from acl_py.errors import Kind as Kind
from acl_py.errors import ProfileError as ProfileError
from acl_py.events import CreateEvent as CreateEvent
from acl_py.events import CreateEventExWithFlag as CreateEventExWithFlag
from acl_py.events import CreateEventWithFlag as CreateEventWithFlag
from acl_py.events import DestroyEvent as DestroyEvent
from acl_py.events import Event as Event
from acl_py.events import EventElapsedTime as EventElapsedTime
from acl_py.events import EventFlag as EventFlag
from acl_py.events import EventQuery as EventQuery
from acl_py.events import EventRecord as EventRecord
from acl_py.events import EventSynchronize as EventSynchronize
from acl_py.events import GetEventAvailNum as GetEventAvailNum
from acl_py.events import GetEventTimestamp as GetEventTimestamp
from acl_py.events import QueryEventStatus as QueryEventStatus
from acl_py.events import QueryEventWaitStatus as QueryEventWaitStatus
from acl_py.events import RecordEvent as RecordEvent
from acl_py.events import ResetEvent as ResetEvent
from acl_py.events import SynchronizeEvent as SynchronizeEvent
from acl_py.events import SynchronizeEventWithTimeout as SynchronizeEventWithTimeout
from acl_py.failures import ExceptionInfo as ExceptionInfo
from acl_py.failures import FailureMode as FailureMode
from acl_py.failures import SetExceptionInfoCallback as SetExceptionInfoCallback
from acl_py.failures import SetOpExecuteTimeOut as SetOpExecuteTimeOut
from acl_py.failures import SetOpWaitTimeOut as SetOpWaitTimeOut
from acl_py.failures import SetStreamFailureMode as SetStreamFailureMode
from acl_py.fills import Memset as Memset
from acl_py.fills import MemsetAsync as MemsetAsync
from acl_py.host import GetLastError as GetLastError
from acl_py.host import HostThread as HostThread
from acl_py.host import HostWork as HostWork
from acl_py.host import PeekAtLastError as PeekAtLastError
from acl_py.host import Sleep as Sleep
from acl_py.kernels import Cost as Cost
from acl_py.kernels import LaunchKernel as LaunchKernel
from acl_py.kernels import block_kernel as block_kernel
from acl_py.kernels import kernel as kernel
from acl_py.memory import Buffer as Buffer
from acl_py.memory import Free as Free
from acl_py.memory import FreeAsync as FreeAsync
from acl_py.memory import FreeHost as FreeHost
from acl_py.memory import FreeHostWithDevSync as FreeHostWithDevSync
from acl_py.memory import FreeWithDevSync as FreeWithDevSync
from acl_py.memory import GetMemInfo as GetMemInfo
from acl_py.memory import HostRegister as HostRegister
from acl_py.memory import HostUnregister as HostUnregister
from acl_py.memory import Malloc as Malloc
from acl_py.memory import MallocAsync as MallocAsync
from acl_py.memory import MallocHost as MallocHost
from acl_py.memory import SetMemPoolThreshold as SetMemPoolThreshold
from acl_py.signals import Compare as Compare
from acl_py.signals import CreateNotify as CreateNotify
from acl_py.signals import DestroyNotify as DestroyNotify
from acl_py.signals import Notify as Notify
from acl_py.signals import RecordNotify as RecordNotify
from acl_py.signals import ResetNotifies as ResetNotifies
from acl_py.signals import ValueWait as ValueWait
from acl_py.signals import ValueWrite as ValueWrite
from acl_py.signals import WaitAndResetNotify as WaitAndResetNotify
from acl_py.simulation import Simulation as Simulation
from acl_py.simulation import current_simulation as current_simulation
from acl_py.simulation import open as open  # noqa: A004 - acl_py.open is the name
from acl_py.simulation import run as run
from acl_py.simulation import simulate as simulate
from acl_py.streams import LEGACY_STREAM as LEGACY_STREAM
from acl_py.streams import PER_THREAD_STREAM as PER_THREAD_STREAM
from acl_py.streams import CreateStream as CreateStream
from acl_py.streams import CreateStreamWithConfig as CreateStreamWithConfig
from acl_py.streams import DestroyStream as DestroyStream
from acl_py.streams import DestroyStreamForce as DestroyStreamForce
from acl_py.streams import DeviceGetStreamPriorityRange as DeviceGetStreamPriorityRange
from acl_py.streams import GetStreamAvailableNum as GetStreamAvailableNum
from acl_py.streams import Status as Status
from acl_py.streams import Stream as Stream
from acl_py.streams import StreamAbort as StreamAbort
from acl_py.streams import StreamFlag as StreamFlag
from acl_py.streams import StreamGetPriority as StreamGetPriority
from acl_py.streams import StreamQuery as StreamQuery
from acl_py.streams import StreamWaitEvent as StreamWaitEvent
from acl_py.streams import SynchronizeStream as SynchronizeStream
from acl_py.streams import SynchronizeStreamWithTimeout as SynchronizeStreamWithTimeout
from device_model.observe import Observer as Observer
from device_model.profile import DeviceProfile as DeviceProfile
from device_model.rules import SyncRules as SyncRules
