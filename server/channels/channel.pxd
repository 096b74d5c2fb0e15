cimport cython

from midge.protocol cimport memory
from midge.protocol.inbound cimport Inbound
from midge.protocol.stream_parser cimport StreamParser
from midge.server.channels.back_pressure cimport BackPressure
from midge.server.channels.host cimport Host
from midge.server.channels.keepalive cimport KeepaliveTimer
from midge.server.channels.reading cimport Reading
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.outbound cimport Outbound
from midge.server.routing.router cimport Router

cdef int BEHIND, CLOSED
cdef Py_ssize_t COMMAND_BYTES, _HOLD_BACK_BYTES, _DELIVERY_BYTES
cdef int _CONNECTING, _INTRODUCING, _CLOSING, _CLOSED, FINISHING, ENDED
cdef ChannelOwner _NOBODY


cdef class ChannelOwner(Client):
    cdef object __weakref__
    cdef readonly Router router
    cdef public Channel channel

    cpdef void opened(self) except *
    cpdef void closed(self) except *
    cpdef void finishing(self) except *
    cpdef void lost(self) except *
    cpdef bint is_busy(self) except -1
    cpdef void send_ping(self) except *
    cpdef void append_last_error(self, str wire) except *
    cpdef void on_budget_spent(self) except *
    cpdef void flushed(self) except *
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void pause_for(self, Client receiver) except *
    cpdef dict held_publishers(self)
    cpdef void release(self) except *
    cpdef void send(self, bytes piece) except *
    cpdef void send_error(self, str text) except *
    @cython.locals(channel=Channel, parser=StreamParser)
    cpdef bint spend(self, Py_ssize_t cost_bytes) except -1  # `except *` takes a call after each
    cpdef Account account_of_lines(self)
    cpdef void count_lines(
        self, Account account, Py_ssize_t count, Py_ssize_t payload_bytes, Py_ssize_t line_bytes
    ) except *


cdef class Channel:
    cdef object __weakref__
    cdef readonly Host host
    cdef readonly ChannelOwner owner
    cdef readonly StreamParser parser
    cdef readonly Outbound outbound
    cdef readonly Inbound inbound
    cdef readonly Reading reading
    cdef readonly KeepaliveTimer keepalive
    cdef readonly BackPressure back_pressure
    cdef readonly str peer_host
    cdef readonly int peer_port, state
    cdef public str forwarded_for
    cdef public object more_input, bare_socket
    cdef public Py_ssize_t max_pending_bytes
    cdef readonly object reason
    cdef readonly double started_at, last_active_at
    cdef readonly object _transport
    cdef object _tls, _graceful_close
    cdef bint _eof, _finishes

    cpdef void become(self, int state) except *
    cpdef object get_buffer(self, Py_ssize_t size_hint)
    cpdef void buffer_updated(self, Py_ssize_t count) except *
    @cython.locals(now=double)
    cdef bint _begin_batch(self, Py_ssize_t count, bint is_last) except -1
    cdef void _finish_batch(self, Py_ssize_t read_bytes) except *
    cdef bint _is_busy(self) except -1
    @cython.locals(owner=ChannelOwner)
    cpdef void fell_behind(self) except *
    @cython.locals(pending=Py_ssize_t)
    cpdef bint has_room(self, Client publisher) except -1
    cpdef BackPressure pressure(self)
