"""Arguments of kernels that run on simulated cores."""

from acl_py.verbs.arrays import Access, Array
from device_model.kernel.images import Argument


def argument_of(name: str, array: Array, access: Access) -> Argument:
    """Return *array* as the device model takes it: the bytes, and what the kernel does with them."""
    buffer = array.buffer
    return Argument(
        name,
        buffer.allocation,
        buffer.offset,
        buffer.offset + array.nbytes,
        array.dtype,
        is_read=access is not Access.OUT,
        is_written=access is not Access.IN,
        shape=array.shape,
    )
