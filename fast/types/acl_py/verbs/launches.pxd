cimport cython
from acl_py.runtime.host cimport Host

cdef class Launches:
    cdef public dict prepared
    cdef public bint begun
    cdef public object limit_ns

cdef class HostMemory:
    cdef public bint _begun
    cdef public dict _cold
    cdef public Launches _launches
    cdef public Host _runtime

    @cython.locals(runtime=Host, launches=Launches)
    cpdef swap(self)
    @cython.locals(runtime=Host, launches=Launches)
    cpdef follow(self, HostMemory before)
