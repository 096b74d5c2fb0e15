# C types for subscription.py.

cimport cython


@cython.no_gc
cdef class Subscription:
    cdef readonly bytes subject
    cdef readonly bytes queue
    cdef readonly bytes sid
    cdef public object owner
    cdef public long long delivered
    cdef public long long max_messages
    cdef public Py_ssize_t slot
