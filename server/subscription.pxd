# C types for subscription.py.

from midge.protocol.frame cimport Frame
from midge.server.client cimport Client
from midge.sublist.subscription cimport Subscription


cdef class RoutedSubscription(Subscription):
    cdef readonly Client client

    cpdef bint receive(self, Client publisher, Frame frame) except -1
