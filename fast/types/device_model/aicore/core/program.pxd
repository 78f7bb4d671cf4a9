cdef class Flow:
    cdef public object direction
    cdef public object path
    cdef public object key
    cdef public object start
    cdef public object length
    cdef public object rows
    cdef public object stride
    cdef public object bypass
    cdef public object nd2nz

cdef class Access:
    cdef public Py_ssize_t core
    cdef public object pipe
    cdef public Py_ssize_t seq

cdef class Instruction(Access):
    cdef public object kind
    cdef public object name
    cdef public Py_ssize_t startup
    cdef public Py_ssize_t cycles
    cdef public Py_ssize_t scalar
    cdef public Flow flow
    cdef public tuple waits
    cdef public object code
    cdef public Py_ssize_t lasti
    cdef public double start
    cdef public double end
