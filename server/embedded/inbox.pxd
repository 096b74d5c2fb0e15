cimport cython

from midge.protocol.frame cimport Frame
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription


cdef class Message:
    cdef readonly str subject, reply
    cdef readonly bytes payload
    cdef readonly str account
    cdef bytes _header_block
    cdef dict _headers
    cdef object _publisher


cdef class Inbox(RoutedSubscription):
    cdef readonly Account account
    cdef public Py_ssize_t dropped, pending_max
    cdef readonly object _publisher, _callback, _waiting
    cdef bint _is_scheduled
    cdef public bint _is_open, _is_awaiting

    cpdef bint receive(self, Client publisher, Frame frame) except -1
    cpdef Py_ssize_t pending(self) except -1
