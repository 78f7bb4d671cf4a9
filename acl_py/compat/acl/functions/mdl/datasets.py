"""acl.mdl: datasets, which are lists of data buffers, and what their tensors look like."""

from dataclasses import dataclass, field

from acl_py.compat.acl.face.binding import does, takes
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session
from acl_py.compat.acl.functions.base.data_buffers import DataBuffer
from acl_py.compat.acl.functions.base.tensors import TensorDesc
from acl_py.compat.acl.standins.models import Gear


@dataclass(eq=False, slots=True)
class Dataset:
    """Handles of data buffers, which stay the caller's; descriptions of their tensors, which are its own; and the gear
    that was set for it.
    """

    buffers: list[int] = field(default_factory=list)
    descs: dict[int, TensorDesc] = field(default_factory=dict)  # by index
    gear: Gear | None = None

    def buffer(self, here: Session, index: int) -> DataBuffer | None:
        """The data buffer at *index*; None if there is none, or it was destroyed."""
        return here.find(self.buffers[index], DataBuffer) if index < len(self.buffers) else None

    def describe(self, index: int, desc: TensorDesc) -> None:
        """From now on *desc* says what lies at *index*; the handle of the one before it stays, for the new one."""
        known = self.descs.get(index)
        if known is None:
            self.descs[index] = desc
        else:
            known.dtype, known.dims, known.format = desc.dtype, desc.dims, desc.format


@takes("")
def create_dataset() -> int:
    """Make an empty dataset."""
    return session().handle(Dataset())


@does("k")
def destroy_dataset(here: Session, handle: int) -> None:
    """End a dataset, not its data buffers."""
    for desc in here.known(handle, Dataset).descs.values():
        here.forget(here.handle(desc))
    here.forget(handle)


@does("kk", echoes=True)
def add_dataset_buffer(here: Session, handle: int, buffer: int) -> None:
    """Put a data buffer at the end of a dataset."""
    dataset = here.known(handle, Dataset)
    here.known(buffer, DataBuffer)
    dataset.buffers.append(buffer)


@takes("kk")
def get_dataset_buffer(handle: int, index: int) -> int:
    """The handle of the data buffer at *index*; 0 if there is none."""
    dataset = session().find(handle, Dataset)
    return 0 if dataset is None or index >= len(dataset.buffers) else dataset.buffers[index]


@takes("k")
def get_dataset_num_buffers(handle: int) -> int:
    """How many data buffers a dataset has; 0 if there is no such dataset."""
    dataset = session().find(handle, Dataset)
    return 0 if dataset is None else len(dataset.buffers)


@does("kkk", echoes=True)
def set_dataset_tensor_desc(here: Session, handle: int, desc: int, index: int) -> None:
    """Say what the tensor at *index* looks like, for models whose shapes are dynamic. The description is copied."""
    dataset, given = here.known(handle, Dataset), here.known(desc, TensorDesc)
    if index >= len(dataset.buffers):
        what = f"the dataset has {len(dataset.buffers)} data buffers, and the index is {index}: add the buffer first"
        raise here.error(INVALID_PARAM, what)
    dataset.describe(index, TensorDesc(given.dtype, list(given.dims), given.format, given.name))


@takes("kk")
def get_dataset_tensor_desc(handle: int, index: int) -> int:
    """The handle of the description of the tensor at *index*, which goes with the dataset; 0 if there is none.

    That of an output says the shape that the last execution gave.
    """
    here = session()
    dataset = here.find(handle, Dataset)
    desc = None if dataset is None else dataset.descs.get(index)
    return 0 if desc is None else here.handle(desc)
