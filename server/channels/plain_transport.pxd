cimport cython

from midge.protocol.inbound cimport Inbound
from midge.server.channels.channel cimport Channel
from midge.server.channels.ready_sockets cimport Readable, ReadySockets
from midge.server.routing cimport plain_socket


cdef class PlainTransport(Readable):
    cdef object _loop
    cdef ReadySockets _sockets
    cdef object _socket
    cdef int _descriptor
    cdef Channel _channel
    cdef bint _is_watched, _is_sending, _is_paused, _has_ended, _has_more, _is_closing, _is_lost
    cdef bint _eof_is_due
    cdef object _waiting
    cdef Py_ssize_t _waiting_bytes

    @cython.locals(inbound=Inbound, buffer=bytearray, count=Py_ssize_t)
    cpdef void on_readable(self, bint is_ending) except *
    @cython.locals(inbound=Inbound, buffer=bytearray, count=Py_ssize_t)
    cpdef int read_next(self, int others, long long longest_ns) except -2
    @cython.locals(channel=Channel, inbound=Inbound, buffer=bytearray, offered=Py_ssize_t)
    cdef void _go_on(self, Py_ssize_t count, bint is_ending) except *
    cdef bint _may_read(self) noexcept
    cdef void _read_nothing(self, int number) except *
    cdef void _unwatch(self) except *
    @cython.locals(sent=Py_ssize_t)
    cdef void _send_waiting(self) except *
    cdef bint _is_drained(self) noexcept
    cdef void _stop_sending(self) except *
    cdef void _lose(self, object error) except *
