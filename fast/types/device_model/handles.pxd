cdef class Handle:
    pass
