from device_model.handles cimport Handle

cdef class AllocationCore:
    cdef public object address
    cdef public object cold
    cdef public object device
    cdef public object freed
    cdef public object home
    cdef public object nbytes
    cdef public object pages
    cdef public object space
    cdef public object view

cdef class BufferCore(Handle):
    cdef public AllocationCore allocation
    cdef public object copied
    cdef public object copied_kind
    cdef public object nbytes
    cdef public object offset
