cimport cython
from device_model.handles cimport Handle

@cython.trashcan(True)
cdef class Completion(Handle):
    cdef public bint done
    cdef public object end_ns
    cdef public list waiters
    cdef public object stamp

    cpdef add_waiter(self, waiter)
    @cython.locals(waiters=list)
    cpdef complete(self, now)

@cython.trashcan(True)
cdef class Group(Completion):
    cdef public object last
    cdef public object why

    cpdef note_last(self, by)

@cython.trashcan(True)
cdef class AllOf(Group):
    cdef public object _reasons
    cdef public object lane
    cdef public Py_ssize_t missing
