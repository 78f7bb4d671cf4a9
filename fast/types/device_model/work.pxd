cimport cython
from device_model.memory.allocation cimport AllocationCore

cdef extern from *:
    """
    /* The bytes of a memoryview from *start* on, if it has *nbytes* there and is a plain row of bytes; else NULL. */
    static CYTHON_INLINE char *plain_bytes(PyObject *view, Py_ssize_t start, Py_ssize_t nbytes, int writes) {
        Py_buffer *row;
        if (!PyMemoryView_Check(view) || (((PyMemoryViewObject *) view)->flags & _Py_MEMORYVIEW_RELEASED)
                || (((PyMemoryViewObject *) view)->mbuf->flags & _Py_MANAGED_BUFFER_RELEASED)) {
            return NULL;
        }
        row = PyMemoryView_GET_BUFFER(view);
        if (row->ndim != 1 || row->itemsize != 1 || row->strides == NULL || row->strides[0] != 1
                || row->suboffsets != NULL || (writes && row->readonly)
                || start < 0 || nbytes < 0 || row->len < nbytes || start > row->len - nbytes) {
            return NULL;
        }
        return (char *) row->buf + start;
    }
    """
    char *plain_bytes(object view, Py_ssize_t start, Py_ssize_t nbytes, bint writes)

from libc.string cimport memmove

cdef inline object move(object into, Py_ssize_t start, object out_of, Py_ssize_t offset, Py_ssize_t nbytes):
    cdef char *target = plain_bytes(into, start, nbytes, True)
    cdef char *source = plain_bytes(out_of, offset, nbytes, False)
    if target == NULL or source == NULL:
        into[start : start + nbytes] = out_of[offset : offset + nbytes]  # which says what is wrong
    else:
        memmove(target, source, nbytes)

cdef class Label:
    cdef public object kind
    cdef public object lane
    cdef public object name

cdef class Work:
    cpdef perform(self)

cdef class Copy(Work):
    cdef public Label label
    cdef public AllocationCore dst
    cdef public object dst_offset
    cdef public AllocationCore src
    cdef public object src_offset
    cdef public object nbytes

    @cython.locals(dst=AllocationCore, src=AllocationCore)
    cpdef perform(self)

cdef class Kernel(Work):
    cdef public Label label
    cdef public object number
    cdef public object blocks
    cdef public object block_ns
    cdef public object body
    cdef public object read
    cdef public object written
    cdef public object rows
    cdef public tuple touched
    cdef public bint moves_pages
    cdef public object nbytes
    cdef public bint exclusive
    cdef public bint alone

    @cython.locals(allocation=AllocationCore)
    cpdef perform(self)
