cimport cython
from device_model.aicore.core.program cimport Flow

cdef Py_ssize_t _SHIFT, _SECTORS, _CHUNK_SHIFT, _CHUNK_BYTES, _LAST, _FULL, _WRITTEN, _KEY_BITS, _SHORT
cdef object _WRITE

cdef class Cache:
    cdef public object nbytes
    cdef public Py_ssize_t _room
    cdef public Py_ssize_t _held
    cdef public dict _bases
    cdef public object _present
    cdef public Py_ssize_t _touched
    cdef public dict _tiles
    cdef public dict _used

    @cython.locals(tile=tuple, before=Py_ssize_t, missing=Py_ssize_t)
    cpdef touch(self, Flow flow)
    @cython.locals(
        start=Py_ssize_t, end=Py_ssize_t, first=Py_ssize_t, last=Py_ssize_t, left=Py_ssize_t, mark=Py_ssize_t,
        part=Py_ssize_t, held=Py_ssize_t, kept=Py_ssize_t, absent=Py_ssize_t, missing=Py_ssize_t,
    )
    cpdef _touch_row(self, Flow flow)
    cpdef _base(self, key)
    @cython.locals(
        start=Py_ssize_t, length=Py_ssize_t, rows=Py_ssize_t, stride=Py_ssize_t, end=Py_ssize_t, first=Py_ssize_t,
        last=Py_ssize_t, head=Py_ssize_t, tail=Py_ssize_t, chunks=list, parts=list,
    )
    cpdef _parts(self, Flow flow)
    @cython.locals(
        keeps=bint, mark=Py_ssize_t, part=Py_ssize_t, held=Py_ssize_t, kept=Py_ssize_t, absent=Py_ssize_t,
        missing=Py_ssize_t,
    )
    cpdef Py_ssize_t _look_up(self, Flow flow, chunks, list parts)
    cpdef _settle(self)
    @cython.locals(held=Py_ssize_t, evicted=Py_ssize_t)
    cpdef Py_ssize_t _evict(self)
