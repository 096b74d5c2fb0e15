# C types for subscription.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.server.routing.client cimport Client
from midge.sublist.subscription cimport Subscription


@cython.no_gc
cdef class RoutedSubscription(Subscription):
    cdef readonly Client client

    cpdef bint receive(self, Client publisher, Frame frame) except -1
