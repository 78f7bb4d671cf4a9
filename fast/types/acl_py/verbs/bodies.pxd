cimport cython
from acl_py.runtime.scopes cimport Barred, Scope

cdef extern from *:
    """
    static PyObject *present_scope_var;  /* scope_var of acl_py.runtime.scopes, from the first call on */
    static CYTHON_INLINE PyObject *read_scope(void) {
        PyObject *scope = NULL;
        if (present_scope_var == NULL) {
            PyObject *scopes = PyImport_ImportModule("acl_py.runtime.scopes");
            if (scopes == NULL) {
                return NULL;
            }
            present_scope_var = PyObject_GetAttrString(scopes, "scope_var");
            Py_DECREF(scopes);
            if (present_scope_var == NULL) {
                return NULL;
            }
        }
        return PyContextVar_Get(present_scope_var, Py_None, &scope) < 0 ? NULL : scope;
    }
    """
    Scope read_scope()

cdef inline Scope present_scope():
    return read_scope()

cdef class Body:
    cdef public object _accesses
    cdef public tuple _args
    cdef public Barred _barred
    cdef public object _blocks
    cdef public object _function
    cdef public tuple _outs
