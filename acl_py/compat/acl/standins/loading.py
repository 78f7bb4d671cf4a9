"""Models that are loaded: their memory and their streams."""

from dataclasses import dataclass, field
from sys import _getframe
from typing import ClassVar

import acl_py as native
from acl_py.compat.acl.face.session import Session
from acl_py.compat.acl.standins.computations import reachable
from acl_py.compat.acl.standins.models import Gear, Model
from acl_py.errors import AclError, Kind
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope, current_scope
from acl_py.sites import Site, site_of
from acl_py.verbs.streams import resolve
from device_model.contexts import Context
from device_model.memory import Buffer
from device_model.streams import Stream

GE_PARAM_INVALID, MODEL_ID_INVALID = 145000, 145003
MEMORY_ALLOCATION = 245000


@dataclass(eq=False)
class LoadedModel:
    """A model on a device: its memory (what it *owns* is freed with it), a stream of its own per context that executes
    it, and the gear that was set last.
    """

    ending: ClassVar[str] = "unloaded"
    model: Model
    device: int
    made: Site
    weights: Buffer | None = None
    work: Buffer | None = None
    owned: list[Buffer] = field(default_factory=list)
    streams: dict[Context, Stream] = field(default_factory=dict)
    gear: Gear | None = None
    unloaded: bool = False

    def __repr__(self) -> str:
        return f"<model {self.model.name} loaded at {self.made}>"

    async def stream(self) -> Stream:
        """The stream that executes it in the current context."""
        scope = scope_here()
        stream = self.streams.get(scope.context)
        if stream is None:
            made = await native.CreateStream()
            stream = self.streams[scope.context] = resolve(scope, made, native.CreateStream.__name__)
        return stream


def loaded_model(here: Session, handle: int) -> LoadedModel:
    """Return the model with this id; raise AclError if it stands for nothing."""
    loaded = here.find(handle, LoadedModel)
    if loaded is None:
        raise here.error(MODEL_ID_INVALID, f"{handle} is not the id of a loaded model")
    return loaded


def scope_here() -> Scope:
    """Return the scope of the calling thread; raise the error of its context if that has failed."""
    scope = current_scope()
    if scope.context.error is not None:
        raise scope.runtime.context_error(scope.context)
    return scope


async def load(model: Model, work: tuple[int, int] = (0, 0), weights: tuple[int, int] = (0, 0)) -> LoadedModel:
    """Put *model* on the current device: into the caller's memory (address and size), or into memory of its own."""
    scope = scope_here()
    loaded = LoadedModel(model, scope.context.device.ordinal, site_of(_getframe(1)))
    try:
        loaded.weights = await _memory(loaded, *weights, model.weight_size, "weights")
        loaded.work = await _memory(loaded, *work, model.work_bytes, "work memory")
    except BaseException:
        for buffer in loaded.owned:
            await native.Free(buffer)
        raise
    _fill_weights(scope.runtime, loaded.weights)
    return loaded


def _fill_weights(runtime: Runtime, weights: Buffer | None) -> None:
    """Tell observers that the weights are there: stand-ins need none, so no bytes are moved."""
    if weights is not None and runtime.hooks.filled is not None:
        start = weights.offset
        runtime.hooks.filled(weights.allocation, start, start + weights.nbytes)


async def _memory(loaded: LoadedModel, address: int, size: int, needed: int, what: str) -> Buffer | None:
    runtime = scope_here().runtime
    if not needed:
        return None
    if address:
        if size < needed:
            raise runtime.error(
                Kind.INVALID_VALUE,
                f"the {what} of {loaded.model.name} is {size} bytes, and it needs {needed}",
                "ask acl.mdl.query_size()",
                code=GE_PARAM_INVALID,
            )
        return reachable(runtime, address, needed, f"the {what} of {loaded.model.name}")
    try:
        buffer = await native.Malloc(needed)
    except AclError as error:
        if error.kind is not Kind.OUT_OF_MEMORY:
            raise
        raise runtime.error(error.kind, error.what, error.remedy, code=MEMORY_ALLOCATION) from error
    loaded.owned.append(buffer)
    return buffer


async def unload(loaded: LoadedModel) -> None:
    """Wait for the synchronous executions of *loaded*, and free what it owns."""
    scope_here()
    loaded.unloaded = True
    for context, stream in loaded.streams.items():
        if stream.destroyed is None and context.destroyed is None:
            await native.DestroyStream(stream)
    for buffer in loaded.owned:
        if buffer.allocation.freed is None:
            await native.Free(buffer)
