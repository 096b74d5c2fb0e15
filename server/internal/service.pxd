cimport cython

from midge.protocol.frame cimport Frame
from midge.server.internal.internal_publisher cimport InternalPublisher
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router
from midge.server.routing.subscription cimport RoutedSubscription

cdef Py_ssize_t _IN_TURN
cdef double _NOTED_S, _TURN_S


cdef class Services:
    cdef InternalPublisher _publisher
    cdef Py_ssize_t _waiting_max
    cdef object _overfull
    cdef bint _is_prompt
    cdef long long _answered_in
    cdef dict _waiting
    cdef set _tasks
    cdef object _ready
    cdef bint _is_asked
    cdef double _used_s

    @cython.locals(router=Router)
    cpdef void take(self, Service service, object request) except *
    cdef void _get_ready(self, object account) except *
    cdef void _ask(self) except *
    cpdef void _answer_waiting(self) except *
    cpdef void _answer_turn(self) except *
    @cython.locals(service=Service, began_s=double, now_s=double)
    cdef void _answer_some(self, object account) except *
    cdef object _soon(self)
    cpdef void _send(self, object request, object answer) except *


cdef class Service(RoutedSubscription):
    cdef readonly object account, handler
    cdef Services _services

    cpdef bint receive(self, Client publisher, Frame frame) except -1
