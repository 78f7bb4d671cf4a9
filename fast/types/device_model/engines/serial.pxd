cimport cython
from device_model.ops cimport Op
from device_model.queues cimport HardwareQueue
from device_model.scheduler cimport Engine, Scheduler

cdef class CopyEngine(Engine):
    cdef public object finish
    cdef public object move_pages
    cdef public object time_of
    cdef public object gap_ns
    cdef public object duplex_bytes
    cdef public object duplex_permille
    cdef public CopyEngine opposite
    cdef public Op running
    cdef public Op last
    cdef public object free_ns
    cdef public object busy_ns
    cdef public object draining
    cdef public Py_ssize_t ready_heads
    cdef public tuple queues
    cdef public tuple rest
    cdef public tuple urgent
    cdef public dict orders
    cdef public object _end
    cdef public HardwareQueue _latest

    cpdef offer(self, queue, bint now=*)
    @cython.locals(queue=HardwareQueue, head=Op, op=Op, scheduler=Scheduler)
    cpdef grant(self)
    cpdef drop(self, op)
    @cython.locals(queue=HardwareQueue)
    cpdef _choose(self)
    @cython.locals(opposite=CopyEngine, other=Op)
    cpdef _share(self, start, end)
    cpdef _ended(self, Op op)
