# C types for channel.py.

from midge.protocol cimport memory
from midge.protocol.inbound cimport Inbound
from midge.protocol.parser cimport Parser
from midge.server.routing.client cimport Client
from midge.server.clients.back_pressure cimport BackPressure
from midge.server.clients.keepalive cimport Keepalive
from midge.server.routing.router cimport Router

cdef int BEHIND, CLOSED
cdef int _CONNECTING, _INTRODUCING, _CLOSING, _CLOSED
cdef int _HALTED, _HELD_BACK, _RESTING
cdef Py_ssize_t _HELD_BYTES, _PORTION_BYTES, _OK_BYTES, _READ_IN_A_ROW_BYTES
cdef double BUSY_S


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
    cdef readonly int state
    cdef readonly Keepalive keepalive
    cdef readonly object _transport
    cdef object _tls
    cdef public object bare_socket
    cdef object _linger_timer
    cdef bint _eof
    cdef int _reading_stops
    cdef Py_ssize_t _read_bytes
    cdef double _began_at
    cdef double _busy_s
    cdef bint _drew
    cdef bint _finishes
    cdef int _halts

    cpdef void become(self, int state) except *
    cpdef object get_buffer(self, Py_ssize_t size_hint)
    cpdef void buffer_updated(self, Py_ssize_t count) except *
    cdef void _begin_batch(self, Py_ssize_t count) except *
    cdef void _finish_batch(self, Py_ssize_t read_bytes) except *
    cpdef void on_budget_spent(self) except *
    cdef void spend(self, Py_ssize_t cost_bytes) except *
    cdef bint may_spend(self, Py_ssize_t cost_bytes) except -1
    cpdef void flushed(self) except *
    cpdef bint run_goes_on(self, unsigned long long generation) except -1
    cpdef void hold_for(self, Client receiver) except *
    cpdef void held(self, Client publisher) except *
    cpdef void release(self) except *
    cdef void send(self, bytes piece) except *
    cpdef void send_ok(self) except *
