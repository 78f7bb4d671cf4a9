cdef class Scope:
    cdef public object context
    cdef public object runtime

cdef class Barred:
    cdef public bint alert
    cdef public Scope scope
    cdef public object who
