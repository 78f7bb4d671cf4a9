cimport cython
from device_model.observe cimport Hooks
from device_model.ops cimport Op
from device_model.queues cimport HardwareQueue
from device_model.scheduler cimport Scheduler
from device_model.streams cimport StreamCore

cdef class Host:
    cdef public dict async_routes
    cdef public object bridge
    cdef public dict cold
    cdef public object copy_cost
    cdef public object copy_latency
    cdef public object costs
    cdef public list fault_rules
    cdef public object faults
    cdef public bint has_launched
    cdef public Hooks hooks
    cdef public object horizon_ns
    cdef public object host_ns
    cdef public object kernel_latency
    cdef public object launch_cost
    cdef public object memory
    cdef public object profile
    cdef public object record_cost
    cdef public Scheduler scheduler
    cdef public dict states
    cdef public object wait_cost
    cdef public dict waiters

    @cython.locals(scheduler=Scheduler)
    cpdef pay(self, cost)
    cpdef state(self, kind)
    @cython.locals(scheduler=Scheduler)
    cpdef submit(self, StreamCore stream, Op op, cost, latency_ns)
