cimport cython
from device_model.ops cimport Op
from device_model.scheduler cimport Engine

cdef class HardwareQueue:
    cdef public Engine engine
    cdef public object index
    cdef public Py_ssize_t depth
    cdef public Py_ssize_t reserved
    cdef public tuple after_same
    cdef public tuple after_other
    cdef public object fifo
    cdef public list requests
    cdef public object shared
    cdef public bint is_of_graph

    cpdef pass_on(self, made_by=*)
