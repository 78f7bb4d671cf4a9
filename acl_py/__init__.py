"""acl_py: streams, events and kernels of Ascend ACL and CUDA on a simulated device, in deterministic time.

The verbs are aclrt's without the prefix, all of them coroutines. The package, from the top down; each room imports
only from those below it, and all of them may import device_model:

    cli/, __main__, pytest_plugin   the command line, and what a pytest run of `acl` scripts needs
    teaching/       what notebooks use: pictures, prices, predictions, what a card did; the notebooks' files
    explore/        programs run again and again, each time under another schedule
        explorer strategies shrinking   which schedules are tried, until one fails; the fewest deviations that fail
        scripts functions preloaded     a run of a script, in a process of its own, and of a function
        outcomes gathering              what came out of one run, and the findings of all
    tools/          what the command line calls
        sanitizing                      what the sanitizer found in a run
        compare writes                  arrays beside those of a reference; what wrote them
        demo demo_cores                 the demos; what those on cores have in common
        demo_aicore demo_flash          a kernel of AI cores, a kernel of blocks of threads
        scripts own_modules             scripts that use `acl`, and the files that they import
    compat/         other interfaces to the same runtime; each has a map of its own
        acl/                            `acl`, the vendor's Python binding
        cuda/                           the driver of CUDA, which packages load as a library
    explain/        what would make a recorded run faster, or a wrong one right
        prices whatif                   programs run again with an edit
        edits cases                     the edits, and what they change
        fixes edges rewrites            the order that a program lacks, and the program that has it
        recordings                      recordings of runs, as programs
        relisting chunking optimiser    operations over other streams, and in parts; which of that is fastest
        launched                        which steps are captured, and which launches run them
        diff assertions                 what moved between two recordings; assertions for tests
        profiler stages                 stages of a running program, and the overlap of copies and computation
        pages                           pages with prices
    programs/       stream programs
        format documents                how they are read and checked; JSON files from anywhere
        replay player                   a program is played, call by call
        operations graph_operations     what each step calls
        objects tasks                   what the calls are about; several tasks
        portability                     one program, tried under other rules
        kernels                         what programs launch
    simulation      run, simulate, open
    causes/         why a recorded run took as long as it did
        path slack lines                the critical path, and how much longer each operation could be, by line
        findings pages                  implicit waits, and waits that order nothing; pages with both
        relation recorded_things        which operations are in order; what stands for streams, events and contexts
        captured between                which calls were captured; what hosts did between two calls
        host                            when the one host clock was busy
    recorded/       the stream program of a recording
        acts translations host_order    calls as steps, in the words of the format, and in their order
        graphs                          what steps of captures need to know of launches
    sanitizer/      what a program gets right only by the times of one run
        watch sanitizer check           all simulations of a run; the observers, which look at one thing each
        suppressions reports            findings that a project accepts; text, JSON, SARIF, GitHub
        finding_texts                   the words of findings
        races pairs accesses shadow     accesses to the same bytes that nothing orders
        nodes                           what the nodes of a launch touch
        hosts handovers                 what tasks and threads know of one another
        lifetimes leaks                 uses after an end; what is never freed
        unwritten digests               bytes that nobody has written; sources of copies that change
        reversed_effects tearing        effects against the order of ends; effects of half of the bytes
    order/          what is certain to be over before what
        relate launches                 what each act orders, and each launch of a graph
        order signals                   the relation of streams and hosts; what streams signal
        things                          streams, events and contexts of a recording
    trace/          the recorder, and the views of what it recorded
        rows/                           what is stored: rows, their columns, the recorder, saved recordings
        views/                          charts and reports as text, figures, Chrome traces, formats of other profilers
        page/                           the page for a browser
    card/           a real card in place of the model
        opening runtime contexts        from options to a card; what the model is asked for elsewhere
        streams events memory work      what the host knows of work; objects of the driver; which call work makes
        kernels host_functions          kernels in PTX; Python in its turn in a stream
        bridge driver clock             how tasks wait; functions and codes of the driver; real time
    options         what a simulation is begun with
    faults asc cta ptx
                    fault rules; the languages of core kernels and of thread-block kernels; kernels in PTX
    verbs/          the verbs, one module for each noun
        devices peers memory managed streams events signals failures host marks
        copies transfers fills kernels core_kernels block_kernels arguments arrays callbacks costs
        ptx_kernels ptx_compiler captures capturing graphs task_groups
    runtime/        the host clock, and the way into the device
        runtime scopes calls blocking   the clock; what a task sees; how a verb begins; hosts that are threads
        injection routes findings       how fault rules strike; where a copy goes; what core kernels print
        captures pools                  what captures refuse; what a pool gives back to its device
        leaks                           what is never freed, or never destroyed
    host_arrays/    arrays of the host that report their uses
        views host_view array_ranges    who gets the reports; the arrays; which bytes they cover
    findings        what is wrong with a program although it ran
    log             one event for each call, if it is turned on
    waiting/        how a host waits, and how a hang is told from a wait
        bridge threads loops tasks      coroutines and the device; threads; event loops; what a task waits for
        clock real_timers browser       loops with simulated time, timers in real time, the loop of a browser
        ready interrupts                which task goes first under a schedule; signals in the middle of a call
        hang standstill deadlocks       whether anything could still wake the program; what to do about it
    schedules       what a run does where it has a choice
    wording         messages that name the functions of `acl` in place of verbs
    calls/          calls as data
        table acts                      what is known of each verb; what a call has done
        steps fields                    the steps of programs that make calls; which values their fields have
    callers codes errors ranges sites signatures whole_files late_imports
                    the ground: tasks, return codes, exceptions, ranges of bytes, lines of the user's program, the
                    functions of `acl`, files that are written whole or not at all, imports in the middle of a program
"""

import importlib as _importlib
import typing
from types import ModuleType as _ModuleType

from acl_py.errors import AclError as AclError
from acl_py.errors import DeadlockError as DeadlockError
from acl_py.errors import Kind as Kind
from acl_py.errors import ProfileError as ProfileError
from acl_py.simulation import Simulation as Simulation
from acl_py.simulation import current_simulation as current_simulation
from acl_py.simulation import new_event_loop as new_event_loop
from acl_py.simulation import open as open  # noqa: A004 - acl_py.open is the name
from acl_py.simulation import run as run
from acl_py.simulation import simulate as simulate
from acl_py.verbs.arrays import Array as Array
from acl_py.verbs.arrays import In as In
from acl_py.verbs.arrays import InOut as InOut
from acl_py.verbs.arrays import Out as Out
from acl_py.verbs.callbacks import CallbackBlock as CallbackBlock
from acl_py.verbs.callbacks import LaunchCallback as LaunchCallback
from acl_py.verbs.callbacks import LaunchHostFunc as LaunchHostFunc
from acl_py.verbs.callbacks import ProcessReport as ProcessReport
from acl_py.verbs.callbacks import SubscribeReport as SubscribeReport
from acl_py.verbs.callbacks import UnsubscribeReport as UnsubscribeReport
from acl_py.verbs.captures import BeginCapture as BeginCapture
from acl_py.verbs.captures import BeginCaptureToGraph as BeginCaptureToGraph
from acl_py.verbs.captures import CaptureInfo as CaptureInfo
from acl_py.verbs.captures import CaptureState as CaptureState
from acl_py.verbs.captures import EndCapture as EndCapture
from acl_py.verbs.captures import IsCapturing as IsCapturing
from acl_py.verbs.captures import ThreadExchangeStreamCaptureMode as ThreadExchangeStreamCaptureMode
from acl_py.verbs.captures import UpdateCaptureDependencies as UpdateCaptureDependencies
from acl_py.verbs.captures import capture as capture
from acl_py.verbs.copies import Memcpy as Memcpy
from acl_py.verbs.copies import Memcpy2d as Memcpy2d
from acl_py.verbs.copies import Memcpy2dAsync as Memcpy2dAsync
from acl_py.verbs.copies import MemcpyAsync as MemcpyAsync
from acl_py.verbs.copies import MemcpyAsyncWithCondition as MemcpyAsyncWithCondition
from acl_py.verbs.copies import MemcpyKind as MemcpyKind
from acl_py.verbs.devices import Context as Context
from acl_py.verbs.devices import CreateContext as CreateContext
from acl_py.verbs.devices import DestroyContext as DestroyContext
from acl_py.verbs.devices import Finalize as Finalize
from acl_py.verbs.devices import GetCurrentContext as GetCurrentContext
from acl_py.verbs.devices import GetDevice as GetDevice
from acl_py.verbs.devices import GetDeviceCount as GetDeviceCount
from acl_py.verbs.devices import GetRunMode as GetRunMode
from acl_py.verbs.devices import Init as Init
from acl_py.verbs.devices import ResetDevice as ResetDevice
from acl_py.verbs.devices import ResetDeviceForce as ResetDeviceForce
from acl_py.verbs.devices import RunMode as RunMode
from acl_py.verbs.devices import SetCurrentContext as SetCurrentContext
from acl_py.verbs.devices import SetDevice as SetDevice
from acl_py.verbs.devices import SynchronizeDevice as SynchronizeDevice
from acl_py.verbs.devices import SynchronizeDeviceWithTimeout as SynchronizeDeviceWithTimeout
from acl_py.verbs.events import CreateEvent as CreateEvent
from acl_py.verbs.events import CreateEventExWithFlag as CreateEventExWithFlag
from acl_py.verbs.events import CreateEventWithFlag as CreateEventWithFlag
from acl_py.verbs.events import DestroyEvent as DestroyEvent
from acl_py.verbs.events import EventElapsedTime as EventElapsedTime
from acl_py.verbs.events import EventFlag as EventFlag
from acl_py.verbs.events import EventQuery as EventQuery
from acl_py.verbs.events import EventRecord as EventRecord
from acl_py.verbs.events import EventSynchronize as EventSynchronize
from acl_py.verbs.events import GetEventAvailNum as GetEventAvailNum
from acl_py.verbs.events import GetEventTimestamp as GetEventTimestamp
from acl_py.verbs.events import QueryEventStatus as QueryEventStatus
from acl_py.verbs.events import QueryEventWaitStatus as QueryEventWaitStatus
from acl_py.verbs.events import RecordEvent as RecordEvent
from acl_py.verbs.events import ResetEvent as ResetEvent
from acl_py.verbs.events import SynchronizeEvent as SynchronizeEvent
from acl_py.verbs.events import SynchronizeEventWithTimeout as SynchronizeEventWithTimeout
from acl_py.verbs.failures import ExceptionInfo as ExceptionInfo
from acl_py.verbs.failures import FailureMode as FailureMode
from acl_py.verbs.failures import SetExceptionInfoCallback as SetExceptionInfoCallback
from acl_py.verbs.failures import SetOpExecuteTimeOut as SetOpExecuteTimeOut
from acl_py.verbs.failures import SetOpWaitTimeOut as SetOpWaitTimeOut
from acl_py.verbs.failures import SetStreamFailureMode as SetStreamFailureMode
from acl_py.verbs.fills import Memset as Memset
from acl_py.verbs.fills import MemsetAsync as MemsetAsync
from acl_py.verbs.graph_nodes import GraphAddConditionalNode as GraphAddConditionalNode
from acl_py.verbs.graph_nodes import GraphAddDependencies as GraphAddDependencies
from acl_py.verbs.graph_nodes import GraphAddNode as GraphAddNode
from acl_py.verbs.graph_nodes import GraphDestroyNode as GraphDestroyNode
from acl_py.verbs.graph_nodes import GraphExecNodeSetWork as GraphExecNodeSetWork
from acl_py.verbs.graph_nodes import GraphNodeSetEnabled as GraphNodeSetEnabled
from acl_py.verbs.graph_nodes import GraphNodeSetWork as GraphNodeSetWork
from acl_py.verbs.graph_nodes import GraphRemoveDependencies as GraphRemoveDependencies
from acl_py.verbs.graphs import GraphAddChildGraphNode as GraphAddChildGraphNode
from acl_py.verbs.graphs import GraphAddEmptyNode as GraphAddEmptyNode
from acl_py.verbs.graphs import GraphAddIfNode as GraphAddIfNode
from acl_py.verbs.graphs import GraphClone as GraphClone
from acl_py.verbs.graphs import GraphCreate as GraphCreate
from acl_py.verbs.graphs import GraphDestroy as GraphDestroy
from acl_py.verbs.graphs import GraphExecDestroy as GraphExecDestroy
from acl_py.verbs.graphs import GraphExecUpdate as GraphExecUpdate
from acl_py.verbs.graphs import GraphInstantiate as GraphInstantiate
from acl_py.verbs.graphs import GraphInstantiateFlag as GraphInstantiateFlag
from acl_py.verbs.graphs import GraphLaunch as GraphLaunch
from acl_py.verbs.graphs import GraphUpload as GraphUpload
from acl_py.verbs.host import GetLastError as GetLastError
from acl_py.verbs.host import HostThread as HostThread
from acl_py.verbs.host import HostWork as HostWork
from acl_py.verbs.host import PeekAtLastError as PeekAtLastError
from acl_py.verbs.host import Sleep as Sleep
from acl_py.verbs.kernels import Cost as Cost
from acl_py.verbs.kernels import LaunchKernel as LaunchKernel
from acl_py.verbs.kernels import block_kernel as block_kernel
from acl_py.verbs.kernels import kernel as kernel
from acl_py.verbs.managed import CPU_DEVICE_ID as CPU_DEVICE_ID
from acl_py.verbs.managed import INVALID_DEVICE_ID as INVALID_DEVICE_ID
from acl_py.verbs.managed import Advice as Advice
from acl_py.verbs.managed import MallocManaged as MallocManaged
from acl_py.verbs.managed import MemAdvise as MemAdvise
from acl_py.verbs.managed import MemAttach as MemAttach
from acl_py.verbs.managed import MemoryType as MemoryType
from acl_py.verbs.managed import MemPrefetchAsync as MemPrefetchAsync
from acl_py.verbs.managed import MemRangeGetAttribute as MemRangeGetAttribute
from acl_py.verbs.managed import PointerAttributes as PointerAttributes
from acl_py.verbs.managed import PointerGetAttributes as PointerGetAttributes
from acl_py.verbs.managed import RangeAttribute as RangeAttribute
from acl_py.verbs.managed import StreamAttachMemAsync as StreamAttachMemAsync
from acl_py.verbs.marks import annotate as annotate
from acl_py.verbs.marks import mark as mark
from acl_py.verbs.memory import Buffer as Buffer
from acl_py.verbs.memory import Free as Free
from acl_py.verbs.memory import FreeAsync as FreeAsync
from acl_py.verbs.memory import FreeHost as FreeHost
from acl_py.verbs.memory import FreeHostWithDevSync as FreeHostWithDevSync
from acl_py.verbs.memory import FreeWithDevSync as FreeWithDevSync
from acl_py.verbs.memory import GetMemInfo as GetMemInfo
from acl_py.verbs.memory import HostRegister as HostRegister
from acl_py.verbs.memory import HostUnregister as HostUnregister
from acl_py.verbs.memory import Malloc as Malloc
from acl_py.verbs.memory import MallocAsync as MallocAsync
from acl_py.verbs.memory import MallocHost as MallocHost
from acl_py.verbs.memory import SetMemPoolThreshold as SetMemPoolThreshold
from acl_py.verbs.peers import DeviceCanAccessPeer as DeviceCanAccessPeer
from acl_py.verbs.peers import DeviceDisablePeerAccess as DeviceDisablePeerAccess
from acl_py.verbs.peers import DeviceEnablePeerAccess as DeviceEnablePeerAccess
from acl_py.verbs.peers import DevicePeerAccessStatus as DevicePeerAccessStatus
from acl_py.verbs.signals import Compare as Compare
from acl_py.verbs.signals import CreateNotify as CreateNotify
from acl_py.verbs.signals import DestroyNotify as DestroyNotify
from acl_py.verbs.signals import Notify as Notify
from acl_py.verbs.signals import RecordNotify as RecordNotify
from acl_py.verbs.signals import ResetNotifies as ResetNotifies
from acl_py.verbs.signals import ValueWait as ValueWait
from acl_py.verbs.signals import ValueWrite as ValueWrite
from acl_py.verbs.signals import WaitAndResetNotify as WaitAndResetNotify
from acl_py.verbs.streams import LEGACY_STREAM as LEGACY_STREAM
from acl_py.verbs.streams import PER_THREAD_STREAM as PER_THREAD_STREAM
from acl_py.verbs.streams import CreateStream as CreateStream
from acl_py.verbs.streams import CreateStreamWithConfig as CreateStreamWithConfig
from acl_py.verbs.streams import DestroyStream as DestroyStream
from acl_py.verbs.streams import DestroyStreamForce as DestroyStreamForce
from acl_py.verbs.streams import DeviceGetStreamPriorityRange as DeviceGetStreamPriorityRange
from acl_py.verbs.streams import GetStreamAvailableNum as GetStreamAvailableNum
from acl_py.verbs.streams import Status as Status
from acl_py.verbs.streams import StreamAbort as StreamAbort
from acl_py.verbs.streams import StreamFlag as StreamFlag
from acl_py.verbs.streams import StreamGetPriority as StreamGetPriority
from acl_py.verbs.streams import StreamQuery as StreamQuery
from acl_py.verbs.streams import StreamWaitEvent as StreamWaitEvent
from acl_py.verbs.streams import SynchronizeStream as SynchronizeStream
from acl_py.verbs.streams import SynchronizeStreamWithTimeout as SynchronizeStreamWithTimeout
from acl_py.verbs.task_groups import CaptureTaskGrpBegin as CaptureTaskGrpBegin
from acl_py.verbs.task_groups import CaptureTaskGrpEnd as CaptureTaskGrpEnd
from acl_py.verbs.task_groups import CaptureTaskUpdateBegin as CaptureTaskUpdateBegin
from acl_py.verbs.task_groups import CaptureTaskUpdateEnd as CaptureTaskUpdateEnd
from acl_py.verbs.task_groups import TaskGroup as TaskGroup
from device_model.graphs.capture import CaptureMode as CaptureMode
from device_model.graphs.capture import CaptureStatus as CaptureStatus
from device_model.graphs.executable import Executable as Executable
from device_model.graphs.graph import Condition as Condition
from device_model.graphs.graph import Graph as Graph
from device_model.graphs.graph import Node as Node
from device_model.graphs.graph import NodeKind as NodeKind
from device_model.handles import Event as Event
from device_model.handles import Stream as Stream
from device_model.observe import Observer as Observer
from device_model.profile import DeviceProfile as DeviceProfile
from device_model.rules import SyncRules as SyncRules

if typing.TYPE_CHECKING:
    from acl_py import asc as asc
    from acl_py import cta as cta
    from acl_py import ptx as ptx
    from acl_py import trace as trace


def __getattr__(name: str) -> _ModuleType:
    """Return `acl_py.asc`, `cta`, `ptx` or `trace`, which are loaded when they are first used."""
    if name in ("asc", "cta", "ptx", "trace"):
        return _importlib.import_module(f"acl_py.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """Do what `%load_ext acl_py` asks for: put `acl` and the driver of CUDA in place in a notebook.

    Raises:
        ValueError: The environment variable ACL_PY_RUN is not what it must be.
    """
    _importlib.import_module("acl_py.compat.notebook").load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Do what `%unload_ext acl_py` asks for: print the summary, and end the session."""
    _importlib.import_module("acl_py.compat.notebook").unload(shell)


__version__ = "0.1.0"  # pyproject.toml takes it from here
