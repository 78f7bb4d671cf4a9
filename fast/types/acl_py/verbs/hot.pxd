cimport cython
from acl_py.runtime.host cimport Host
from acl_py.runtime.scopes cimport Scope
from acl_py.verbs.bodies cimport present_scope
from acl_py.verbs.launches cimport Launches
from device_model.completions cimport Completion
from device_model.contexts cimport Context
from device_model.events cimport EventCore
from device_model.memory.allocation cimport AllocationCore, BufferCore
from device_model.ops cimport Op
from device_model.queues cimport HardwareQueue
from device_model.streams cimport StreamCore
from device_model.work cimport Copy, Kernel, Label, Work

cdef extern from *:
    """
    static CYTHON_INLINE PyObject *place_code(PyObject *frame) {
        return (PyObject *) PyFrame_GetCode((PyFrameObject *) frame);
    }
    static CYTHON_INLINE int place_lasti(PyObject *frame) {
        return PyFrame_GetLasti((PyFrameObject *) frame);
    }
    /* Sites by place. A site keeps its code alive, and sites live as long as the process, so an entry stays true. */
    typedef struct { PyObject *code; int lasti; PyObject *site; } seen_place;
    static seen_place seen_places[1024];
    static CYTHON_INLINE seen_place *seen_entry(PyObject *frame, PyObject **code, int *lasti) {
        *code = (PyObject *) PyFrame_GetCode((PyFrameObject *) frame);
        Py_DECREF(*code);  /* the frame has it */
        *lasti = PyFrame_GetLasti((PyFrameObject *) frame);
        return &seen_places[(((size_t) *code >> 4) + (size_t) *lasti * 31) & 1023];
    }
    static CYTHON_INLINE PyObject *seen_find(PyObject *frame) {
        PyObject *code, *site;
        int lasti;
        seen_place *entry = seen_entry(frame, &code, &lasti);
        site = entry->code == code && entry->lasti == lasti ? entry->site : Py_None;
        Py_INCREF(site);
        return site;
    }
    static CYTHON_INLINE void seen_keep(PyObject *frame, PyObject *site) {
        PyObject *code, *old;
        int lasti;
        seen_place *entry = seen_entry(frame, &code, &lasti);
        old = entry->site;
        Py_INCREF(site);
        entry->code = code;
        entry->lasti = lasti;
        entry->site = site;
        Py_XDECREF(old);
    }
    """
    object place_code(object frame)
    int place_lasti(object frame)
    object seen_find(object frame)
    void seen_keep(object frame, object site)

    ctypedef class types.FrameType [object PyObject, check_size ignore]:
        @property
        cdef inline object f_code(self):
            return place_code(self)

        @property
        cdef inline int f_lasti(self):
            return place_lasti(self)

cdef dict known

cdef inline object seen_site(FrameType frame):
    return seen_find(frame)

cdef inline object see_site(FrameType frame, object site):
    seen_keep(frame, site)

cdef inline object id(object each):  # Python's would also tell an audit hook
    return <size_t> <void *> each

@cython.locals(scope=Scope, context=Context, line=StreamCore)
cdef Scope scope_for(stream)
cdef object place_of(FrameType frame)
@cython.locals(op=Op)
cdef Op new_op(Work work, lane, nbytes, site, called_ns)
@cython.locals(prepared=Kernel, allocation=AllocationCore)
cdef Work work_of(kernel, Host runtime, Launches launches, blocks, tuple args)
@cython.locals(
    scope=Scope, runtime=Host, line=StreamCore, copy=Copy, label=Label, queue=HardwareQueue, op=Op,
    into=BufferCore, out_of=BufferCore, target=AllocationCore, source=AllocationCore,
)
cpdef queue_copy(FrameType frame, dst, dest_max, src, count, kind, stream)
@cython.locals(scope=Scope, runtime=Host, line=StreamCore, work=Work, queue=HardwareQueue, op=Op)
cpdef queue_launch(FrameType frame, kernel, block_dim, args, stream)
@cython.locals(scope=Scope, runtime=Host, line=StreamCore, mark=EventCore, completion=Completion)
cpdef record(FrameType frame, event, stream)
@cython.locals(scope=Scope, runtime=Host, line=StreamCore, mark=EventCore, work=Completion)
cpdef bint wait(FrameType frame, event, stream) except -1
