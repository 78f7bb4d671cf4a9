cimport cython
from device_model.aicore.core.program cimport Flow

cdef class Cache:
    cdef public object nbytes
    cdef public Py_ssize_t _room
    cdef public Py_ssize_t _held
    cdef public dict _bases
    cdef public object _present
    cdef public dict _dirty
    cdef public Py_ssize_t _touched
    cdef public dict _tiles
    cdef public dict _used

    @cython.locals(tile=tuple, before=Py_ssize_t, missing=Py_ssize_t)
    cpdef touch(self, Flow flow)
    @cython.locals(dirty=dict, writes=bint, missing=Py_ssize_t)
    cpdef _touch_row(self, Flow flow)
    cpdef _base(self, key)
    @cython.locals(chunks=list, parts=list)
    cpdef _parts(self, Flow flow)
    @cython.locals(keeps=bint, missing=Py_ssize_t, dirty=dict)
    cpdef _look_up(self, Flow flow, chunks, list parts)
    cpdef _settle(self)
    cpdef _evict(self)
