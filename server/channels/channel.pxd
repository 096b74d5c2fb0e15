# C types for channel.py.

cimport cython

from midge.protocol.inbound cimport Inbound
from midge.protocol.stream_parser cimport StreamParser
from midge.server.channels.back_pressure cimport BackPressure
from midge.server.channels.host cimport Host
from midge.server.channels.keepalive cimport KeepaliveTimer
from midge.server.channels.channel_hooks cimport ChannelHooks
from midge.server.channels.reading cimport Reading
from midge.server.routing.client cimport Client
from midge.server.routing.outbound cimport Outbound

cdef int BEHIND, CLOSED
cdef Py_ssize_t _HOLD_BACK_BYTES
cdef int _CONNECTING, _INTRODUCING, _CLOSING, _CLOSED
cdef int FINISHING, ENDED
cdef ChannelHooks _NOBODY


cdef class Channel:
    cdef object __weakref__
    cdef readonly Host host
    cdef readonly ChannelHooks owner
    cdef readonly StreamParser parser
    cdef readonly Outbound outbound
    cdef readonly Inbound inbound
    cdef readonly Reading reading
    cdef readonly KeepaliveTimer keepalive
    cdef readonly BackPressure back_pressure
    cdef readonly str peer_host
    cdef readonly int peer_port
    cdef readonly int state
    cdef public str forwarded_for
    cdef public object more_input
    cdef public object bare_socket
    cdef public Py_ssize_t max_pending_bytes
    cdef readonly object reason
    cdef readonly double started_at
    cdef readonly double last_active_at
    cdef readonly object _transport
    cdef object _tls
    cdef object _graceful_close
    cdef bint _eof
    cdef bint _finishes

    cpdef void become(self, int state) except *
    cpdef object get_buffer(self, Py_ssize_t size_hint)
    cpdef void buffer_updated(self, Py_ssize_t count) except *
    @cython.locals(now=double)
    cdef bint _begin_batch(self, Py_ssize_t count, bint is_last) except -1
    cdef void _finish_batch(self, Py_ssize_t read_bytes) except *
    cdef bint _is_busy(self) except -1
    @cython.locals(owner=ChannelHooks)
    cpdef void fell_behind(self) except *
    @cython.locals(pending=Py_ssize_t)
    cpdef bint has_room(self, Client publisher) except -1
    cpdef BackPressure pressure(self)
