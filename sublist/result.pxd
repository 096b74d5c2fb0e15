cimport cython

from midge.sublist.subscription cimport Subscription


cdef int _UNKNOWN


@cython.no_gc
cdef class QueueGroup:
    cdef readonly bytes name
    cdef readonly tuple members
    cdef public Py_ssize_t turn


@cython.no_gc
cdef class Remotes:
    cdef readonly tuple plain, queues


@cython.no_gc
cdef class SubListResult:
    cdef readonly tuple plain, queues
    cdef readonly Remotes remotes
    cdef readonly Subscription lone
    cdef int _owners_differ

    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t fan_out(self)
    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t count_run_deliveries(self)
    @cython.locals(group=QueueGroup, count=Py_ssize_t)
    cpdef Py_ssize_t reach(self)
    @cython.locals(group=QueueGroup)
    cpdef Py_ssize_t count_members(self, bytes name) except -1
    @cython.locals(subscription=Subscription, owners=set)
    cpdef bint owners_differ(self) except -1
    cpdef list subscriptions(self)
    cpdef SubListResult with_added(self, Subscription subscription)
    @cython.locals(subscription=Subscription, once=dict)
    cpdef SubListResult with_remotes(self, SubListResult found)
