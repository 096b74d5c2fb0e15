# C types for connection.py.

cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame, compose, with_subject, without_headers
from midge.protocol.handler cimport Handler
from midge.protocol.inbound cimport Inbound
from midge.protocol.parser cimport Parser
from midge.server.account cimport Account
from midge.server.client cimport Client
from midge.server.permissions cimport Permissions
from midge.server.flow cimport Flow
from midge.server.router cimport Router
from midge.server.subscription cimport RoutedSubscription
from midge.sublist.result cimport SubListResult
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport Subscription

cdef int CLOSED, NO_ECHO, NO_HEADERS, DENIED_SUBJECTS, REPLY_GRANTS, BEHIND, TRACED, INTERCEPTED
cdef int VERBOSE, PEDANTIC, RESTRICTED, MAPPED, WATCHED, SCREENED, RESERVED
cdef int _DOLLAR, _J, _N, _UNDERSCORE, _G, _R
cdef Py_ssize_t _HELD_BYTES, _TURN_BYTES, _CONNECT_BYTES, _COMMAND_BYTES
cdef Py_ssize_t _DELIVERY_BYTES, _DELIVERY_IN_RUN_BYTES, _STEP_BYTES


cdef class Connection(Client):
    cdef object __weakref__
    cdef readonly object hub
    cdef readonly Router router
    cdef readonly str peer_host
    cdef readonly int peer_port
    cdef public str forwarded_for
    cdef readonly str kind
    cdef public object options
    cdef public object identity
    cdef public Permissions permissions
    cdef public object tracer
    cdef public object stream
    cdef public object info
    cdef public bytes nonce
    cdef public dict cookies
    cdef public dict subscriptions
    cdef public long long max_subscriptions
    cdef public Py_ssize_t max_pending_bytes
    cdef readonly Parser parser
    cdef readonly Inbound inbound
    cdef public int guard
    cdef readonly object reason
    cdef readonly double started_at
    cdef readonly double last_active_at
    cdef readonly bint connected
    cdef public bint has_info
    cdef readonly object keepalive
    cdef readonly object _transport
    cdef bint _told_info
    cdef bytes _subject
    cdef bytes _deliverable
    cdef bytes _deliverable_in
    cdef SubListResult _result
    cdef SubList _result_of
    cdef unsigned long long _generation
    cdef readonly Flow flow
    cdef Py_ssize_t _turn_left
    cdef object _auth_timer
    cdef object _linger_timer
    cdef bint _eof
    cdef bint _paused
    cdef readonly bint _ended
    cdef int _halts

    cpdef object get_buffer(self, Py_ssize_t size_hint)
    cpdef void buffer_updated(self, Py_ssize_t count) except *
    cpdef void on_publish(self, Frame frame) except *
    @cython.locals(result=SubListResult, cost=Py_ssize_t)
    cpdef Py_ssize_t on_publish_run(self, Frame frame, Py_ssize_t count) except -1
    cpdef void on_subscribe(self, bytes subject, bytes queue, bytes sid) except *
    cpdef void on_unsubscribe(self, bytes sid, long long max_messages) except *
    cpdef void on_connect(self, bytes document) except *
    cpdef void on_ping(self) except *
    cpdef void on_pong(self) except *
    cpdef void on_info(self, bytes document) except *
    cpdef void on_peer_error(self, bytes text) except *
    @cython.locals(reserved=bint)
    cdef void _note_reserved(self, Frame frame) except *
    @cython.locals(subject=bytes)
    cdef bytes _subject_of(self, Frame frame)
    @cython.locals(sublist=SubList, result=SubListResult, start=Py_ssize_t, steps="long long")
    cdef SubListResult _match(self, Frame frame)
    @cython.locals(result=SubListResult, taken=Py_ssize_t, offers="long long")
    cdef void _route(self, Frame frame) except *
    @cython.locals(guard=int, subject=bytes, target=bytes, may_publish=bint)
    cdef void _publish_guarded(self, Frame frame) except *
    cdef bytes _mapped(self, bytes subject)
    cdef void _send_no_responders(self, Frame frame, bytes subject) except *
    @cython.locals(watch=int, screened=Frame)
    cpdef Frame checked(self, Subscription subscription, Client publisher, Frame frame)
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, last=bytes, subject=bytes)
    cdef bint _may_deliver(self, Subscription subscription, Frame frame) except -1
    cpdef void finished(self, Subscription subscription) except *
    cpdef void flushed(self) except *
    cpdef void hold_for(self, Client receiver) except *
    cpdef void release(self) except *
    cdef void _note_activity(self) except *
    cdef void _finish_batch(self) except *
    cdef void _spend(self, Py_ssize_t cost_bytes) except *
    cpdef void held(self, Client publisher) except *
    cdef void _send(self, bytes piece) except *
    cpdef void send_ok(self) except *


@cython.locals(first=int, second=int)
cdef bint _may_be_reserved(const unsigned char *data, Py_ssize_t start)
