# C types for plain_transport.py.

cimport cython

from midge.protocol.inbound cimport Inbound
from midge.server.clients.channel cimport Channel
from midge.server.routing cimport plain_socket


@cython.final
cdef class PlainTransport:
    cdef object _loop
    cdef object _socket
    cdef int _descriptor
    cdef Channel _channel
    cdef object _watcher
    cdef bint _is_watched
    cdef bint _is_sending
    cdef bint _is_paused
    cdef bint _has_ended
    cdef bint _is_closing
    cdef bint _is_lost
    cdef bint _eof_is_due
    cdef object _waiting
    cdef Py_ssize_t _waiting_bytes

    @cython.locals(channel=Channel, inbound=Inbound, buffer=bytearray, offered=Py_ssize_t,
                   count=Py_ssize_t)
    cpdef void on_readable(self) except *
    cdef bint _may_read(self) noexcept
    cdef void _read_nothing(self, int number) except *
    cdef void _watch(self) except *
    cdef void _unwatch(self) except *
    @cython.locals(sent=Py_ssize_t)
    cdef void _send_waiting(self) except *
    cdef bint _is_drained(self) noexcept
    cdef void _stop_sending(self) except *
    cdef void _lose(self, object error) except *
