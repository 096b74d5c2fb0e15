# C types for connection.py.

cimport cython

from midge.protocol.frame cimport Frame, without_headers
from midge.protocol.parser cimport Parser
from midge.server.channels.channel cimport Channel
from midge.server.clients.deliver_denials cimport DeliverDenials
from midge.server.routing.client cimport Client
from midge.server.clients.publishing cimport PublishingClient
from midge.sublist.subscription cimport Subscription
from midge.sublist.sharded_dict cimport ShardedDict

cdef int CLOSED, NO_ECHO, NO_HEADERS, DENIED_SUBJECTS, REPLY_GRANTS, BEHIND, TRACED, INTERCEPTED
cdef int VERBOSE, PEDANTIC, RESTRICTED, MAPPED, WATCHED, SCREENED, METERED
cdef Py_ssize_t STEP_BYTES, _CONNECT_BYTES


cdef class Connection(PublishingClient):
    cdef readonly Parser parser
    cdef readonly str listener_kind
    cdef readonly object own_login
    cdef public object pending
    cdef public object identity
    cdef public object info
    cdef public bytes nonce
    cdef public dict cookies
    cdef public ShardedDict subscriptions
    cdef public long long max_subscriptions
    cdef readonly bint introduced
    cdef public bint owes_info
    cdef public bint is_unsettled
    cdef public object late_pongs
    cdef bint _told_info
    cdef DeliverDenials _denials
    cdef object _auth_timer

    cpdef void opened(self) except *
    cpdef void closed(self) except *
    cpdef void finishing(self) except *
    cpdef void lost(self) except *
    cpdef bint is_busy(self) except -1
    cpdef void on_connect(self, bytes document) except *
    cpdef void on_ping(self) except *
    cpdef void on_pong(self) except *
    cpdef void on_info(self, bytes document) except *
    cpdef void on_peer_error(self, bytes text) except *
    cpdef void on_subscribe(self, bytes subject, bytes queue, bytes sid) except *
    cpdef void on_unsubscribe(self, bytes sid, long long max_messages) except *
    @cython.locals(checks=int, screened=Frame, denials=DeliverDenials)
    cpdef Frame checked(self, Subscription subscription, Client publisher, Frame frame)
    cpdef bint has_room(self, Client publisher) except -1
    cpdef void finished(self, Subscription subscription) except *
