cimport cython
from device_model.ops cimport Op
from device_model.queues cimport HardwareQueue
from device_model.scheduler cimport Engine, Scheduler
from device_model.work cimport Kernel, Work

cdef class Dispatcher(Engine):
    cdef public object finish
    cdef public object move_pages
    cdef public dict paged_ns
    cdef public object begin
    cdef public object go_on
    cdef public object waiting
    cdef public object finish_core
    cdef public object cores_of_part
    cdef public object begin_part
    cdef public dict parts
    cdef public object cores
    cdef public object open_cores
    cdef public object shared_blocks
    cdef public object resident
    cdef public object resident_limit
    cdef public object block_overhead_ns
    cdef public object drain_ns
    cdef public object tail_ns
    cdef public object copy_time
    cdef public object node_copy_time
    cdef public object fill_time
    cdef public object pinned_fill_time
    cdef public object list
    cdef public Op freed
    cdef public object listed
    cdef public bint _held
    cdef public dict _waves
    cdef public object _lead
    cdef public object _end

    cpdef offer(self, queue, bint now=*)
    @cython.locals(op=Op, head=Op)
    cpdef _collect(self, HardwareQueue queue)
    @cython.locals(op=Op, scheduler=Scheduler, work=Work, kernel=Kernel)
    cpdef grant(self)
    cpdef drop(self, op)
    @cython.locals(work=Work, kernel=Kernel)
    cpdef _ended(self, Op op)
