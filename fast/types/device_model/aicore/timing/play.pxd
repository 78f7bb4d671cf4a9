cimport cython
from device_model.aicore.core.program cimport Flow, Instruction
from device_model.aicore.timing.bandwidth cimport Bandwidth
from device_model.aicore.timing.gm cimport Gm

cdef object _WORK, _WAIT, _SET, _READ, _CROSS_SET, _CROSS_WAIT, _BARRIER_ALL

cdef class _Queue:
    cdef public _Core core
    cdef public object pipe
    cdef public list instructions
    cdef public Py_ssize_t next
    cdef public double free
    cdef public double done
    cdef public Instruction waits_for
    cdef public double warm
    cdef public object flowing
    cdef public double busy

    cpdef bint is_idle(self)

cdef class _Core:
    cdef public object program
    cdef public double away_ns
    cdef public object name
    cdef public double begin
    cdef public double scalar
    cdef public Py_ssize_t next
    cdef public list queues
    cdef public bint is_over

    @cython.locals(queue=_Queue)
    cpdef bint is_idle(self)

cdef class _Play:
    cdef public object programs
    cdef public object spec
    cdef public double cycles_per_ns
    cdef public Gm gm
    cdef public Bandwidth bandwidth
    cdef public dict waiting
    cdef public dict incomplete
    cdef public list woken
    cdef public dict busy_by
    cdef public dict core_time
    cdef public dict free_cycles
    cdef public dict names
    cdef public dict to_run
    cdef public dict places

    cpdef run(self)
    @cython.locals(each=Instruction)
    cpdef begin_all(self)
    @cython.locals(woken=list, queue=_Queue, core=_Core)
    cpdef _run_woken(self)
    @cython.locals(instructions=list, each=Instruction)
    cpdef _look(self, _Core core)
    @cython.locals(
        queues=list, scalar_queue=_Queue, queue=_Queue, instructions=list, flag_issue=double, scalar=double, busy=double,
        place=Py_ssize_t, touched=list, each=Instruction, at=double, start=double, wait=double, set_=Instruction,
    )
    cpdef _issue(self, _Core core)
    @cython.locals(set_=Instruction)
    cpdef bint _are_known(self, _Queue queue, Instruction each)
    cpdef _wait_for(self, _Queue queue, Instruction set_)
    @cython.locals(
        instructions=list, free=double, done=double, warm=double, busy=double, is_vector=bint, is_cube=bint,
        copy_issue=double, flag_latency=double, waiting=dict, woken=list, place=Py_ssize_t, each=Instruction, start=double,
        begun=double, end=double, setter=Instruction, arrives=double,
    )
    cpdef _take(self, _Queue queue)
    @cython.locals(setter=Instruction, begun=double)
    cpdef double _begun(self, _Queue queue, Instruction each)
    @cython.locals(flow=Flow, latency=double, begin=double)
    cpdef _schedule(self, _Queue queue, Instruction each, double earliest)
    cpdef _finish(self, Instruction each, double start, double end)
    @cython.locals(end=double, queue=_Queue)
    cpdef _end(self, _Core core)
    @cython.locals(each=Instruction, brought_by=Instruction, setter=Instruction, done=double, set_=Instruction, other=_Queue)
    cpdef _flow_ended(self, _Queue queue, double now)
