cimport cython
from acl_py.runtime.host cimport Host
from acl_py.runtime.scopes cimport Scope
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
    """
    object place_code(object frame)
    int place_lasti(object frame)

    ctypedef class types.FrameType [object PyObject, check_size ignore]:
        @property
        cdef inline object f_code(self):
            return place_code(self)

        @property
        cdef inline int f_lasti(self):
            return place_lasti(self)

cdef dict known

cdef inline object id(object each):  # Python's would also tell an audit hook
    return <size_t> <void *> each

@cython.locals(scope=Scope, context=Context, line=StreamCore)
cdef Scope scope_for(stream)
@cython.locals(by_instruction=dict)
cdef object place_of(FrameType frame)
@cython.locals(op=Op)
cdef Op new_op(Work work, lane, nbytes, site, called_ns)
@cython.locals(prepared=Kernel, allocation=AllocationCore)
cdef Work work_of(kernel, Host runtime, blocks, tuple args)
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
