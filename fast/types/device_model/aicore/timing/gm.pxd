cimport cython
from device_model.aicore.core.program cimport Flow, Instruction
from device_model.aicore.timing.bandwidth cimport Bandwidth
from device_model.aicore.timing.l2 cimport Cache

cdef object _READ

cdef class Gm:
    cdef public Bandwidth bandwidth
    cdef public object _spec
    cdef public Cache _cache
    cdef public double _read
    cdef public double _same_lines
    cdef public dict _last_at
    cdef public dict _fetchers
    cdef public dict behind
    cdef public dict _usual
    cdef public dict _rates
    cdef public double _shared_rate
    cdef public tuple _rows_rates

    @cython.locals(key=tuple, is_read=bint, is_shared=bint)
    cpdef ask(self, Instruction each, Flow flow, core, double at)
    @cython.locals(line=tuple, fetcher=Instruction)
    cpdef _follow(self, Instruction each, Flow flow, missing)
    @cython.locals(line=tuple, when=double)
    cpdef _is_crowded(self, Flow flow, core, double at)
    cpdef _write_back(self, evicted, double step)

@cython.locals(cores=dict, shared=set, each=Instruction, flow=Flow, key=tuple)
cpdef _shared(programs)
