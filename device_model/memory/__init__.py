"""Memory: device arenas, host memory, the look-up from an address to an allocation, and stream-ordered pools.

    registry.py     Memory: malloc, free, pinned and registered host memory, room and leaks
    directory.py    the living allocations, and `locate`: from a buffer, address or array to (allocation, offset)
    stories.py      the messages when that fails
    allocation.py   Allocation (one life of a piece of memory) and Buffer (its handle for users)
    addresses.py    address -> allocation, alive or freed not long ago
    pool.py         Arena (addresses and room of a device) and Pool (MallocAsync, FreeAsync) with its Blocks
    virtual.py      Virtual: reserved addresses, memory without one, and mappings
    pages.py        Pages of managed memory: where each is, and what an access moves
    backing.py      where the bytes are: lazy mappings, poison, cold chunks
    transfer.py     copy, copy2d, fill, array: moving and viewing bytes of memory that was checked
    host.py         host memory of others: arrays, buffers, bare addresses

Read allocation.py first. Memory ends in two steps. A *freed* allocation may no longer be named by the host. A *dropped*
allocation has lost its bytes: reads give poison and writes have no effect. Between the two, only work that was queued
before the FreeAsync, or before the unregistering, still uses it.
"""

# ruff: noqa: E402 - what is imported behind put_in_front() is compiled, where it is

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)

from device_model.memory.allocation import DEVICE_BASE as DEVICE_BASE
from device_model.memory.allocation import WITH_VALUES as WITH_VALUES
from device_model.memory.allocation import Allocation as Allocation
from device_model.memory.allocation import Buffer as Buffer
from device_model.memory.allocation import Origin as Origin
from device_model.memory.allocation import Space as Space
from device_model.memory.allocation import cuda_array as cuda_array
from device_model.memory.allocation import describe as describe
from device_model.memory.allocation import dlpack as dlpack
from device_model.memory.allocation import dlpack_device as dlpack_device
from device_model.memory.allocation import size_text as size_text
from device_model.memory.backing import CHUNK as CHUNK
from device_model.memory.backing import POISON as POISON
from device_model.memory.backing import VALUELESS as VALUELESS
from device_model.memory.backing import Cold as Cold
from device_model.memory.backing import create_mapping as create_mapping
from device_model.memory.backing import write_poison as write_poison
from device_model.memory.pages import HOST as HOST
from device_model.memory.pages import NONE as NONE
from device_model.memory.pages import NOWHERE as NOWHERE
from device_model.memory.pages import Advice as Advice
from device_model.memory.pages import Moves as Moves
from device_model.memory.pages import Pages as Pages
from device_model.memory.pool import DEVICE_SPAN as DEVICE_SPAN
from device_model.memory.pool import AddressedPool as AddressedPool
from device_model.memory.pool import Block as Block
from device_model.memory.pool import Limit as Limit
from device_model.memory.pool import Pool as Pool
from device_model.memory.registry import Memory as Memory
from device_model.memory.transfer import LARGE as LARGE
from device_model.memory.transfer import array as array
from device_model.memory.transfer import copy as copy
from device_model.memory.transfer import copy2d as copy2d
from device_model.memory.transfer import fill as fill
from device_model.memory.transfer import forget as forget
from device_model.memory.transfer import overwritten as overwritten
from device_model.memory.transfer import pitched_bytes as pitched_bytes
from device_model.memory.transfer import poison as poison
from device_model.memory.transfer import snapshot as snapshot
from device_model.memory.transfer import warm as warm
from device_model.memory.virtual import GRANULARITY as GRANULARITY
from device_model.memory.virtual import Physical as Physical
