# C types for acks.py.

cimport cython

from midge.jetstream.consumer.consumer cimport Consumer
from midge.protocol cimport memory
from midge.protocol.frame cimport Frame
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription

cdef unsigned char _DOT
cdef int _SECOND_DOTS


cdef class AckIntake(RoutedSubscription):
    cdef object _streams
    cdef bytes _prefix
    cdef bint _is_second
    cdef Consumer _consumer

    @cython.locals(subject=bytes, reply=bytes, consumer=Consumer, is_second=bint)
    cpdef bint receive(self, Client publisher, Frame frame) except -1
    cdef Consumer _look_up(self, bytes subject, bint is_second)


@cython.locals(data="const unsigned char *", dots=int, i=Py_ssize_t)
cdef int count_dots(bytes subject, Py_ssize_t length) noexcept
