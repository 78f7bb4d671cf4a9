cimport cython

cdef class Label:
    cdef public object kind
    cdef public object lane
    cdef public object name

cdef class Work:
    cpdef perform(self)

cdef class Copy(Work):
    cdef public Label label
    cdef public object dst
    cdef public object dst_offset
    cdef public object src
    cdef public object src_offset
    cdef public object nbytes

    cpdef perform(self)

cdef class Kernel(Work):
    cdef public Label label
    cdef public object number
    cdef public object blocks
    cdef public object block_ns
    cdef public object body
    cdef public object read
    cdef public object written
    cdef public object rows
    cdef public tuple touched
    cdef public bint moves_pages
    cdef public object nbytes
    cdef public bint exclusive
    cdef public bint alone

    cpdef perform(self)
