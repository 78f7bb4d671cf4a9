cimport cython
from acl_py.runtime.host cimport Host
from device_model.ops cimport Op
from device_model.queues cimport HardwareQueue
from device_model.streams cimport StreamCore
from device_model.work cimport Copy, Label, Work

cdef object scope_for(object stream)
@cython.locals(runtime=Host, line=StreamCore, copy=Copy, label=Label, queue=HardwareQueue, op=Op)
cpdef queue_copy(frame, dst, dest_max, src, count, kind, stream)
@cython.locals(runtime=Host, line=StreamCore, work=Work, queue=HardwareQueue, op=Op)
cpdef queue_launch(frame, kernel, block_dim, args, stream)
@cython.locals(runtime=Host)
cpdef record(frame, event, stream)
@cython.locals(runtime=Host, line=StreamCore)
cpdef bint wait(frame, event, stream) except -1
