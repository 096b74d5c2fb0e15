cimport cython


@cython.no_gc
cdef class Subscription:
    cdef readonly bytes subject, queue, sid
    cdef public Py_ssize_t slot

    cpdef object owned_by(self)


cdef class OwnedSubscription(Subscription):
    cdef public object owner

    cpdef object owned_by(self)


@cython.no_gc  # a link drops its interest when it ends, so that no cycle is left
cdef class RemoteSubscription(Subscription):
    cdef readonly object remote
    cdef public int weight
    cdef readonly bint is_last_choice
    cdef readonly str origin
    cdef public Py_ssize_t place

    cpdef object owned_by(self)
