cimport cython
from acl_py.runtime.scopes cimport Barred, Scope

cdef class Body:
    cdef public object _accesses
    cdef public tuple _args
    cdef public Barred _barred
    cdef public object _blocks
    cdef public object _function
    cdef public tuple _outs

