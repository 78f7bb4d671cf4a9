cimport cython
from acl_py.runtime.host cimport Host

cdef class Launches:
    cdef public dict prepared
    cdef public object limit_ns

cdef class HostMemory:
    cdef public dict _cold
    cdef public bint _launched
    cdef public Host _runtime

    @cython.locals(runtime=Host)
    cpdef swap(self)
    @cython.locals(runtime=Host)
    cpdef follow(self, HostMemory before)
