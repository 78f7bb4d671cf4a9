cimport cython
from device_model.completions cimport Completion
from device_model.handles cimport Handle
from device_model.ops cimport Op
from device_model.queues cimport HardwareQueue
from device_model.scheduler cimport Scheduler

cdef class StreamCore(Handle):
    cdef public object context
    cdef public object home
    cdef public Scheduler scheduler
    cdef public tuple queues
    cdef public Roll order
    cdef public object epoch
    cdef public object priority
    cdef public Completion tail
    cdef public dict pending

    @cython.locals(scheduler=Scheduler, order=Roll, tail=Completion, queue=HardwareQueue, last=Op, completion=Completion)
    cpdef enqueue(self, Op op, ready_ns, bint now=*)
    cpdef backlog(self)
    @cython.locals(order=Roll)
    cpdef turn(self)
    cpdef give(self, Completion completion)
    @cython.locals(order=Roll, pending=dict)
    cpdef wait(self, Completion completion, why=*)

cdef class Roll:
    cdef public object epoch
    cdef public dict streams
    cpdef enter(self, stream)
