# C types for channel.py.

from midge.protocol.inbound cimport Inbound
from midge.protocol.parser cimport Parser
from midge.server.routing.client cimport Client
from midge.server.clients.back_pressure cimport BackPressure
from midge.server.clients.keepalive cimport Keepalive
from midge.server.routing.router cimport Router

cdef int BEHIND, CLOSED
cdef Py_ssize_t _HELD_BYTES, _PORTION_BYTES


cdef class Channel(Client):
    cdef object __weakref__
    cdef readonly object broker
    cdef readonly Router router
    cdef readonly str peer_host
    cdef readonly int peer_port
    cdef public str forwarded_for
    cdef readonly str listener_kind
    cdef public object tracer
    cdef public object pending
    cdef public object more_input
    cdef public Py_ssize_t max_pending_bytes
    cdef readonly Parser parser
    cdef readonly Inbound inbound
    cdef readonly BackPressure back_pressure
    cdef readonly object reason
    cdef readonly double started_at
    cdef readonly double last_active_at
    cdef readonly bint connected
    cdef readonly Keepalive keepalive
    cdef readonly object _transport
    cdef object _tls
    cdef Py_ssize_t turn_left
    cdef object _linger_timer
    cdef bint _eof
    cdef bint _paused
    cdef bint _finishes
    cdef readonly bint _ended
    cdef int _halts

    cpdef object get_buffer(self, Py_ssize_t size_hint)
    cpdef void buffer_updated(self, Py_ssize_t count) except *
    cdef void _note_activity(self) except *
    cdef void _finish_batch(self, Py_ssize_t read_bytes) except *
    cdef void spend(self, Py_ssize_t cost_bytes) except *
    cdef bint may_spend(self, Py_ssize_t cost_bytes) except -1
    cpdef void flushed(self) except *
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void hold_for(self, Client receiver) except *
    cpdef void held(self, Client publisher) except *
    cpdef void release(self) except *
    cdef void send(self, bytes piece) except *
    cpdef void send_ok(self) except *
