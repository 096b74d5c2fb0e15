# C types for service.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.server.internal.publisher cimport InternalPublisher
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router
from midge.server.routing.subscription cimport RoutedSubscription

cdef Py_ssize_t _IN_TURN


cdef class Services:
    cdef InternalPublisher _publisher
    cdef Py_ssize_t _waiting_max
    cdef object _overfull
    cdef bint _is_prompt
    cdef long long _answered_in
    cdef dict _waiting
    cdef set _tasks

    @cython.locals(router=Router)
    cpdef void take(self, Service service, object request) except *
    @cython.locals(router=Router, is_postponed=bint)
    cpdef void _answer_waiting(self, object account) except *
    @cython.locals(service=Service)
    cdef void _answer_in_turn(self, object account) except *
    cdef object _soon(self)
    cpdef void _send(self, object request, object answer) except *


cdef class Service(RoutedSubscription):
    cdef readonly object account
    cdef readonly object handler
    cdef Services _services

    cpdef bint receive(self, Client publisher, Frame frame) except -1
