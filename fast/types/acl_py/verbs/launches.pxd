cdef class Launches:
    cdef public dict prepared
    cdef public bint begun
    cdef public object limit_ns
