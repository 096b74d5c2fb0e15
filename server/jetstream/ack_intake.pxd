cimport cython

from midge.jetstream.consumer.ack_subject cimport AckNumbers
from midge.jetstream.consumer.consumer cimport Consumer
from midge.protocol cimport memory
from midge.protocol.frame cimport Frame
from midge.server.jetstream.ingest cimport charge
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription

cdef unsigned char _DOT
cdef int _FIRST_DOTS, _SECOND_DOTS, _NUMBERS
cdef unsigned long long _LEAST_WORK
cdef Py_ssize_t _ACK_SIZE
cdef bytes _ACK


cdef class AckIntake(RoutedSubscription):
    cdef object _streams
    cdef bytes _prefix
    cdef bint _is_second
    cdef Consumer _consumer
    cdef AckNumbers _numbers

    @cython.locals(reply=bytes, consumer=Consumer, before="unsigned long long")
    cpdef bint receive(self, Client publisher, Frame frame) except -1
    @cython.locals(data="const unsigned char *", start=Py_ssize_t, end=Py_ssize_t, tokens=int)
    cdef bint _is_for_the_same(self, Frame frame) except -1
    @cython.locals(subject=bytes, reply=bytes, consumer=Consumer, is_second=bint,
                   before="unsigned long long")
    cdef bint _take(self, Client publisher, Frame frame) except -1
    cdef Consumer _look_up(self, bytes subject, bint is_second)


@cython.locals(start=Py_ssize_t)
cdef bint _is_plain(Frame frame) except -1


@cython.locals(data="const unsigned char *", dots=int, i=Py_ssize_t)
cdef int count_dots(bytes subject, Py_ssize_t length) noexcept
