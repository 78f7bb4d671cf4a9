cimport cython
from device_model.aicore.core.program cimport Access, Instruction

cdef class Adders(Access):
    cdef public list members
    cdef public Instruction writer
    cdef public list readers

cdef class Span:
    cdef public Py_ssize_t start
    cdef public Py_ssize_t stop
    cdef public Access writer
    cdef public list readers
    cdef public object old

cdef class Shadow:
    cdef public object name
    cdef public object _empty
    cdef public dict _spans
    cdef public list _starts

    @cython.locals(span=Span, writer=Access, spans=list, readers=list)
    cpdef read(self, core, Instruction instruction, list clock, Py_ssize_t start, Py_ssize_t stop)
    @cython.locals(span=Span, spans=list)
    cpdef Span write(self, core, Instruction instruction, list clock, Py_ssize_t start, Py_ssize_t stop)
    @cython.locals(reader=Instruction, writer=Access)
    cpdef _check(self, core, Instruction instruction, list clock, Span span)
    @cython.locals(spans=dict, starts=list, index=Py_ssize_t, begin=Py_ssize_t, at=Py_ssize_t, span=Span, covering=list)
    cpdef list _cut(self, Py_ssize_t start, Py_ssize_t stop)
    cpdef _split(self, Span span, Py_ssize_t at)
    @cython.locals(first=Span, span=Span, index=Py_ssize_t)
    cpdef Span _join(self, list spans, Instruction writer)

cdef class GlobalShadow(Shadow):
    cdef public bint _written
    cdef public dict reads
    cdef public list _pending

    cpdef read(self, core, Instruction instruction, list clock, Py_ssize_t start, Py_ssize_t stop)
    cpdef Span write(self, core, Instruction instruction, list clock, Py_ssize_t start, Py_ssize_t stop)

cpdef Instruction _unfinished(core, Access writer, list clock)
@cython.locals(other=Instruction, index=Py_ssize_t)
cpdef _note(list readers, Instruction reader)
