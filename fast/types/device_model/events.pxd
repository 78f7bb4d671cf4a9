from device_model.completions cimport Completion
from device_model.handles cimport Handle

cdef class EventCore(Handle):
    cdef public object home
    cdef public object recorded_ns
    cdef public object stream
    cdef public Completion work
