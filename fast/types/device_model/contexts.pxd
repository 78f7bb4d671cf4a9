from device_model.handles cimport Handle

cdef class Context(Handle):
    cdef public dict _ending
    cdef public bint alert
    cdef public object apart
    cdef public object default
    cdef public object destroyed
    cdef public object device
    cdef public object error
    cdef public dict failed
    cdef public object failed_ns
    cdef public object failed_op
    cdef public dict flags
    cdef public object id
    cdef public object legacy
    cdef public object made
    cdef public object order
    cdef public object outside
    cdef public object per_thread
    cdef public bint primary
    cdef public dict streams
