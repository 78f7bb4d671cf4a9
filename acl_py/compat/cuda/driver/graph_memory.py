"""The memory of graphs on a device."""

from struct import pack

from acl_py.compat.cuda.driver.devices import device
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.runtime.graph_memory import GraphMemory

_CURRENT, _HIGH = (0, 2), (1, 3)  # CUgraphMem_attribute: bytes in use, and bytes that are held


def _memory(driver: Driver, ordinal: int) -> tuple[GraphMemory, int]:
    return driver.runtime.state(GraphMemory), device(driver, ordinal).ordinal


@answers("cuDeviceGraphMemTrim")
async def trim(driver: Driver, ordinal: int) -> None:
    """Give freed memory of graphs back to the device."""
    memory, number = _memory(driver, ordinal)
    memory.trim(number)


@answers("cuDeviceGetGraphMemAttribute")
async def get_attribute(driver: Driver, ordinal: int, attribute: int, place: int) -> None:
    """How many bytes graphs hold, now or at most."""
    memory, number = _memory(driver, ordinal)
    if attribute not in _CURRENT + _HIGH:
        raise RefusedError(INVALID_VALUE, f"there is no attribute {attribute} of the memory of graphs")
    own_memory.write(place, pack("<Q", memory.highest(number) if attribute in _HIGH else memory.bytes(number)))


@answers("cuDeviceSetGraphMemAttribute")
async def set_attribute(driver: Driver, ordinal: int, attribute: int, place: int) -> None:
    """Let the highest number of bytes begin again."""
    memory, number = _memory(driver, ordinal)
    if attribute not in _HIGH or any(own_memory.read(place, 8)):
        raise RefusedError(INVALID_VALUE, f"the attribute {attribute} of the memory of graphs can only be set to 0")
    memory.reset_highest(number)
