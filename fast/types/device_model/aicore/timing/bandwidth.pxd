cimport cython
from device_model.flows cimport Class, Flows

cdef class Bandwidth(Flows):
    cdef public double mean_load
    cdef public double owed
    cdef public double _load
    cdef public list _memories

    @cython.locals(class_=Class, nbytes=double)
    cpdef _begin(self, what, ask)
    @cython.locals(passed=double, load=double, active=list, each=Class)
    cpdef _advance(self, double now)
    @cython.locals(
        now=double, next_end=double, used=double, total=double, active=list, flows=Py_ssize_t, wanted=double, each=Class,
        count=Py_ssize_t, rate=double, together=double, left=double, fair=double, remaining=double, end=double, first=tuple,
    )
    cpdef _share(self)
