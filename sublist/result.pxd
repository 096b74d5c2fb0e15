# C types for result.py.

from midge.sublist.subscription cimport Subscription


cdef class QueueGroup:
    cdef readonly bytes name
    cdef readonly tuple members
    cdef public Py_ssize_t turn


cdef class SubListResult:
    cdef readonly tuple plain
    cdef readonly tuple queues

    cpdef Py_ssize_t fan_out(self)
    cpdef list subscriptions(self)
    cpdef SubListResult with_added(self, Subscription subscription)
