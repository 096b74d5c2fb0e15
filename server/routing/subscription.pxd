cimport cython

from midge.protocol.frame cimport Frame
from midge.server.routing.client cimport Client
from midge.sublist.subscription cimport Subscription


@cython.no_gc
cdef class RoutedSubscription(Subscription):
    cdef readonly Client client
    cdef public long long delivered, max_messages

    cpdef object owned_by(self)
    cpdef bint receive(self, Client publisher, Frame frame) except -1
    cpdef bint takes_runs(self) noexcept
    @cython.locals(generation="unsigned long long", taken=Py_ssize_t)
    cpdef Py_ssize_t receive_run(self, Client publisher, Frame frame, Py_ssize_t count) except -1
