"""acl: data buffers, which are pairs of an address and a size."""

from dataclasses import dataclass

from acl_py.compat.acl.face.binding import does, takes
from acl_py.compat.acl.face.session import Session, session


@dataclass(eq=False, slots=True)
class DataBuffer:
    """An address and a size."""

    address: int
    size: int


@takes("kk")
def create_data_buffer(address: int, size: int) -> int:
    """Make a data buffer over memory that stays the caller's."""
    return session().handle(DataBuffer(address, size))


@does("k")
def destroy_data_buffer(here: Session, handle: int) -> None:
    """End a data buffer, not its memory."""
    here.known(handle, DataBuffer)
    here.forget(handle)


@does("kkk")
def update_data_buffer(here: Session, handle: int, address: int, size: int) -> None:
    """Let a data buffer stand for other memory."""
    buffer = here.known(handle, DataBuffer)
    buffer.address, buffer.size = address, size


@takes("k")
def get_data_buffer_addr(handle: int) -> int:
    """The address of a data buffer; 0 if there is no such buffer."""
    buffer = session().objects.get(handle)
    return buffer.address if type(buffer) is DataBuffer else 0


@takes("k")
def get_data_buffer_size(handle: int) -> int:
    """The size of a data buffer; 0 if there is no such buffer."""
    buffer = session().objects.get(handle)
    return buffer.size if type(buffer) is DataBuffer else 0


@takes("k")
def get_data_buffer_size_v2(handle: int) -> int:
    """The size of a data buffer; 0 if there is no such buffer."""
    buffer = session().objects.get(handle)
    return buffer.size if type(buffer) is DataBuffer else 0
