cimport cython
from device_model.completions cimport Completion

cdef class Engine:
    cdef public object name
    cdef public Scheduler scheduler
    cdef public bint is_dirty

    cpdef offer(self, queue, bint now=*)
    cpdef grant(self)
    cpdef drop(self, op)
    cpdef request_grant(self)

cdef class Scheduler:
    cdef public object now
    cdef public list heap
    cdef public list dirty
    cdef public object sequence
    cdef public object before_return
    cdef public object choices
    cdef public object until
    cdef public Completion wake
    cdef public object _raiser
    cdef public object _instants
    cdef public Completion _goal
    cdef public object _ready
    cdef public object _size

    @cython.locals(heap=list, dirty=list, engine=Engine)
    cpdef advance(self, until)
    @cython.locals(heap=list, dirty=list, engine=Engine)
    cpdef step(self)
    @cython.locals(dirty=list, engine=Engine)
    cpdef settle(self)
