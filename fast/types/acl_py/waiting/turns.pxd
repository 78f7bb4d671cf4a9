cimport cython
from device_model.scheduler cimport Scheduler

cdef class Turns:
    cdef public object clock
    cdef public object ready
    cdef public object queues
    cdef public object _in_loop
    cdef public object _timers
    cdef public object _change
    cdef public object _at_turn
    cdef public bint _is_resuming
    cdef public object _own
    cdef public object _home
    cdef public object _running

    @cython.locals(scheduler=Scheduler)
    cpdef reach(self, bridge, cost)
    @cython.locals(scheduler=Scheduler, heap=list)
    cpdef bint let_device_act(self, bridge, last) except -1
    cpdef take(self, strand, Scheduler scheduler, end)
    @cython.locals(scheduler=Scheduler)
    cpdef _come(self, strand)
    cpdef _next(self)
