"""acl.mdl: datasets, which are lists of data buffers, and what their tensors look like."""

from dataclasses import dataclass, field

from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, Session, session
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


def dataset_of(here: Session, handle: int) -> Dataset | None:
    """The dataset that *handle* stands for."""
    return here.find(handle, Dataset)


@takes("")
def create_dataset() -> int:
    """Make an empty dataset."""
    return session().handle(Dataset())


@takes("k")
def destroy_dataset(handle: int) -> int:
    """End a dataset, not its data buffers."""
    here = session()
    dataset = dataset_of(here, handle)
    if dataset is None:
        return here.unknown(handle, Dataset)
    for desc in dataset.descs.values():
        here.forget(here.handle(desc))
    here.forget(handle)
    return SUCCESS


@takes("kk")
def add_dataset_buffer(handle: int, buffer: int) -> tuple[int, int]:
    """Put a data buffer at the end of a dataset."""
    here = session()
    dataset = dataset_of(here, handle)
    if dataset is None:
        return handle, here.unknown(handle, Dataset)
    if here.find(buffer, DataBuffer) is None:
        return handle, here.unknown(buffer, DataBuffer)
    dataset.buffers.append(buffer)
    return handle, SUCCESS


@takes("kk")
def get_dataset_buffer(handle: int, index: int) -> int:
    """The handle of the data buffer at *index*; 0 if there is none."""
    dataset = dataset_of(session(), handle)
    return 0 if dataset is None or index >= len(dataset.buffers) else dataset.buffers[index]


@takes("k")
def get_dataset_num_buffers(handle: int) -> int:
    """How many data buffers a dataset has; 0 if there is no such dataset."""
    dataset = dataset_of(session(), handle)
    return 0 if dataset is None else len(dataset.buffers)


@takes("kkk")
def set_dataset_tensor_desc(handle: int, desc: int, index: int) -> tuple[int, int]:
    """Say what the tensor at *index* looks like, for models whose shapes are dynamic. The description is copied."""
    here = session()
    dataset = dataset_of(here, handle)
    if dataset is None:
        return handle, here.unknown(handle, Dataset)
    given = here.find(desc, TensorDesc)
    if given is None:
        return handle, here.unknown(desc, TensorDesc)
    if index >= len(dataset.buffers):
        what = f"the dataset has {len(dataset.buffers)} data buffers, and the index is {index}: add the buffer first"
        return handle, here.refuse(INVALID_PARAM, what)
    dataset.describe(index, TensorDesc(given.dtype, list(given.dims), given.format, given.name))
    return handle, SUCCESS


@takes("kk")
def get_dataset_tensor_desc(handle: int, index: int) -> int:
    """The handle of the description of the tensor at *index*, which goes with the dataset; 0 if there is none.

    That of an output says the shape that the last execution gave.
    """
    here = session()
    dataset = dataset_of(here, handle)
    desc = None if dataset is None else dataset.descs.get(index)
    return 0 if desc is None else here.handle(desc)
