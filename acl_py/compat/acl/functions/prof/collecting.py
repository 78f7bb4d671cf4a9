"""acl.prof: collecting what a program does, from `start` to `stop`, into a folder PROF_... for each device.

The folders have the form that `msprof --export` leaves, so nothing has to be exported. Every run is traced, so
collecting costs nothing; it chooses the times and the devices that the folders are about. Each `stop` writes them.
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from acl_py.compat.acl.face.binding import check_ints, does, runs, takes
from acl_py.compat.acl.face.session import INVALID_FILE, INVALID_PARAM, Session, session
from acl_py.runtime.calls import begin_without_context
from acl_py.runtime.runtime import Runtime
from acl_py.trace.views import prof

REPEAT_INITIALIZE, INVALID_CONFIG, ALREADY_RUN, NOT_RUN, API_CONFLICT = 100002, 100010, 100042, 100043, 148047
WRITE_FILE = 100004
_MOST_DEVICES = 64
_METRICS = (*range(9), 0xFF)  # aclprofAicoreMetrics: of the pipes, of memory and so on, or none
_TYPES = 0x1FFFFFF  # the bits of ACL_PROF_ACL_API, ACL_PROF_TASK_TIME and the others
_CONFIGS = range(1, 64)  # aclprofConfigType


@dataclass(eq=False, slots=True)
class ProfConfig:
    """What to collect: on which devices."""

    devices: tuple[int, ...]


@dataclass(slots=True)
class _Folder:
    """What is collected of a device: where it goes, when it was collected, and since when it is now."""

    path: Path
    stamp: str
    spans: list[tuple[int, int]] = field(default_factory=list)
    since_ns: int | None = None


class Collecting:
    """What a runtime collects: nothing before `init` and behind `finalize`. *subscribed* is whether models are."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.folders: dict[int, _Folder] = {}
        self.subscribed = 0

    @property
    def running(self) -> list[int]:
        """The devices of which something is collected now."""
        return [device for device, folder in self.folders.items() if folder.since_ns is not None]


def _state(name: str) -> tuple[Runtime, Collecting]:
    _, runtime, _, _ = begin_without_context(f"acl.prof.{name}")
    return runtime, runtime.state(Collecting)


def _begun(here: Session, name: str) -> tuple[Runtime, Collecting, Path]:
    runtime, state = _state(name)
    if state.subscribed:
        raise here.error(API_CONFLICT, "models are subscribed: end that with acl.prof.model_unsubscribe() first")
    if state.path is None:
        raise here.error(NOT_RUN, f"acl.prof.{name}() needs acl.prof.init() first")
    return runtime, state, state.path


@runs("s")
async def init(here: Session, path: str) -> None:
    """Begin: what is collected goes into folders in *path*, which is made if it does not exist."""
    _, state = _state("init")
    if state.subscribed:
        raise here.error(API_CONFLICT, "models are subscribed: end that with acl.prof.model_unsubscribe() first")
    if state.path is not None:
        raise here.error(REPEAT_INITIALIZE, f"acl.prof.init() was called before, with {str(state.path)!r}")
    if not path:
        raise here.error(INVALID_PARAM, "the path is empty")
    state.path = _folder(here, path)


def _folder(here: Session, path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise here.error(INVALID_FILE, f"{path}: no folder can be made there: {error.strerror}") from error
    return folder.absolute()


@runs("")
async def finalize(here: Session) -> None:
    """End. What is still collected is stopped."""
    runtime, state, _ = _begun(here, "finalize")
    devices = state.running
    if devices:
        here.warn_once(f"acl.prof.finalize(): devices {_listed(devices)} were not stopped; call acl.prof.stop() first")
        _stop(here, runtime, state, devices)
    state.path = None
    state.folders.clear()


@takes("likk")
def create_config(devices: list[Any], metrics: int, events: int, types: int) -> int:
    """Say what to collect; 0 if there is no such device, metric or type. *events* must be 0."""
    check_ints(devices)
    here = session()
    count = here.runtime.profile.devices
    if not 1 <= len(devices) <= _MOST_DEVICES or not all(0 <= each < count for each in devices):
        return _none(here, f"there are devices 0 to {count - 1}, and {_listed(devices) or 'none'} was asked for")
    if len(set(devices)) < len(devices):
        return _none(here, f"a device is there twice: {_listed(devices)}")
    if metrics not in _METRICS:
        return _none(here, f"there is no metric {metrics}; use 0 to 8, or 255 for none")
    if not types or types & ~_TYPES:
        return _none(here, f"{types:#x} are not types of data; add up 1 for calls, 2 for the times of tasks, and so on")
    if events:
        return _none(here, "the events must be 0")
    return here.handle(ProfConfig(tuple(devices)))


def _none(here: Session, what: str) -> int:
    here.refuse(INVALID_PARAM, what)
    return 0


def _listed(devices: list[Any]) -> str:
    return ", ".join(map(str, devices))


@does("k")
def destroy_config(here: Session, handle: int) -> None:
    """End what create_config made."""
    here.known(handle, ProfConfig)
    here.forget(handle)


@runs("is")
async def set_config(here: Session, kind: int, value: str) -> None:
    """Set one more thing to collect; it has no effect here."""
    _, state = _state("set_config")
    if state.path is None:
        raise here.error(NOT_RUN, "acl.prof.set_config() needs acl.prof.init() first")
    if kind not in _CONFIGS or not value:
        raise here.error(INVALID_PARAM, f"there is no configuration {kind}, or its value is empty")
    here.notes["prof", kind] = value


@runs("k")
async def start(here: Session, handle: int) -> None:
    """Collect from now on."""
    config = here.known(handle, ProfConfig)
    runtime, state, path = _begun(here, "start")
    running = [device for device in config.devices if device in state.running]
    if running:
        raise here.error(ALREADY_RUN, f"device {_listed(running)} is profiled already: call acl.prof.stop() first")
    for device in config.devices:
        folder = state.folders.get(device)
        if folder is None:
            folder = state.folders[device] = _new_folder(path, device)
        folder.since_ns = runtime.host_ns


def _new_folder(path: Path, device: int) -> _Folder:
    """A folder with a name of its own: a number, the time of the machine, and letters."""
    stamp = datetime.now().strftime("%Y%m%d%H%M%S%f")
    number = 1 + sum(1 for each in path.glob("PROF_*") if each.is_dir())
    letters = f"ACLPYDEVICE{chr(ord('A') + device // 26)}{chr(ord('A') + device % 26)}"
    folder = path / f"PROF_{number:06}_{stamp[:17]}_{letters}"
    folder.mkdir()
    return _Folder(folder, stamp[:14])


@runs("k")
async def stop(here: Session, handle: int) -> None:
    """Collect no longer, and write the folders."""
    config = here.known(handle, ProfConfig)
    runtime, state, _ = _begun(here, "stop")
    idle = [device for device in config.devices if device not in state.running]
    if idle:
        raise here.error(NOT_RUN, f"device {_listed(idle)} is not profiled: call acl.prof.start() first")
    _stop(here, runtime, state, list(config.devices))


def _stop(here: Session, runtime: Runtime, state: Collecting, devices: list[int]) -> None:
    for device in devices:
        folder = state.folders[device]
        assert folder.since_ns is not None, "it was started"
        folder.spans.append((folder.since_ns, runtime.host_ns))
        folder.since_ns = None
        if here.trace is None:
            raise here.error(WRITE_FILE, "this simulation keeps no trace, so nothing can be written")
        try:
            cores = runtime.profile.cores.count
            prof.write(here.trace, folder.path, device, folder.spans, folder.stamp, cores)
        except OSError as error:
            what = f"{folder.path} cannot be written: {error.strerror}"
            raise here.error(WRITE_FILE, what) from error
