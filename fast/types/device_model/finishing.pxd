cimport cython
from device_model.contexts cimport Context
from device_model.observe cimport Hooks
from device_model.ops cimport Op
from device_model.scheduler cimport Scheduler

cdef class Finisher:
    cdef public object _flying
    cdef public object _inline_bytes
    cdef public Hooks hooks
    cdef public Scheduler scheduler
    cdef public object workers

    @cython.locals(context=Context, waiters=list)
    cpdef finish(self, Op op, now)
