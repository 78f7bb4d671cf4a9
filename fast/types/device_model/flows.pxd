cimport cython

cdef class Class:
    cdef public double cap
    cdef public double together
    cdef public tuple loads
    cdef public double rate
    cdef public double given
    cdef public list ends

cdef class Flows:
    cdef public double now
    cdef public double _next_end
    cdef public bint _is_stale
    cdef public dict _classes
    cdef public list _active
    cdef public list _starts
    cdef public Py_ssize_t _sequence

    cpdef add(self, double at, what, ask)
    @cython.locals(starts=list, ended=list, first=tuple, at=double)
    cpdef next_ended(self, double until=*)
    @cython.locals(active=list, before=Py_ssize_t, each=Class, ends=list, reached=double, first=tuple)
    cpdef _end(self, list ended)
    cpdef _begin(self, what, ask)
    cpdef _advance(self, double now)
    cpdef _share(self)
