cimport cython
from device_model.completions cimport Completion
from device_model.work cimport Work

cdef class Op(Completion)  # named here: queues and streams, which this needs, have operations

from device_model.queues cimport HardwareQueue
from device_model.streams cimport StreamCore

@cython.trashcan(True)
cdef class Op(Completion):
    cdef public Work work
    cdef public object site
    cdef public object called_ns
    cdef public object error
    cdef public StreamCore stream
    cdef public HardwareQueue queue
    cdef public Py_ssize_t blockers
    cdef public object lane
    cdef public object nbytes
    cdef public object queued_ns
    cdef public object ready_ns
    cdef public object start_ns
    cdef public object by
    cdef public object why
    cdef public dict reasons
    cdef public object row
    cdef public object blocks_left
    cdef public object cores_held

    @cython.locals(by=Completion, queue=HardwareQueue)
    cpdef release(self, by)
    cpdef pass_behind(self, Op head, now)
