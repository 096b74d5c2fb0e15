cimport cython

from midge.protocol.frame cimport Frame, without_headers
from midge.protocol.parser cimport Parser
from midge.server.channels.channel cimport Channel, ChannelOwner
from midge.server.clients.deliver_denials cimport DeliverDenials
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.clients.publishing cimport Publishing
from midge.sublist.subscription cimport Subscription
from midge.sublist.sharded_dict cimport ShardedDict

cdef int CLOSED, NO_ECHO, NO_HEADERS, DENIED_SUBJECTS, REPLY_GRANTS, BEHIND, TRACED, INTERCEPTED
cdef int VERBOSE, PEDANTIC, RESTRICTED, MAPPED, WATCHED, SCREENED
cdef Py_ssize_t COMMAND_BYTES, LOG_LINE_BYTES, STEP_BYTES, _CONNECT_BYTES


cdef class Commands(Publishing):
    cdef Connection _connection(self)
    @cython.locals(connection=Connection, most="long long")
    cpdef object refuse_subscription(self, bytes subject, bytes queue)
    cpdef void on_connect(self, bytes document) except *
    @cython.locals(connection=Connection)
    cpdef void on_ping(self) except *
    @cython.locals(connection=Connection)
    cpdef void on_pong(self) except *
    cpdef void on_info(self, bytes document) except *
    cpdef void on_peer_error(self, bytes text) except *
    @cython.locals(connection=Connection)
    cpdef void on_subscribe(self, bytes subject, bytes queue, bytes sid) except *
    @cython.locals(connection=Connection)
    cpdef void on_unsubscribe(self, bytes sid, long long max_messages) except *


cdef class Connection(ChannelOwner):
    cdef readonly object broker
    cdef public object options
    cdef readonly Commands commands
    cdef readonly Parser parser
    cdef readonly str listener_kind
    cdef readonly object own_login
    cdef public object pending, identity, info
    cdef public bytes nonce
    cdef public dict cookies
    cdef public ShardedDict subscriptions
    cdef public long long max_subscriptions
    cdef readonly bint introduced
    cdef public bint owes_info, is_unsettled
    cdef public object late_pongs
    cdef bint _has_sent_info
    cdef DeliverDenials _denials
    cdef object _auth_timer

    cpdef void opened(self) except *
    cpdef void closed(self) except *
    cpdef void finishing(self) except *
    cpdef void lost(self) except *
    cpdef bint is_busy(self) except -1
    cpdef void send_ping(self) except *
    cpdef void append_last_error(self, str wire) except *
    cpdef void send_error(self, str text) except *
    cpdef Client lines_to(self, Subscription subscription)
    cpdef Account account_of_lines(self)
    @cython.locals(checks=int, screened=Frame, denials=DeliverDenials)
    cpdef Frame checked(self, Subscription subscription, Client publisher, Frame frame)
    cpdef bint has_room(self, Client publisher) except -1
    cpdef void finished(self, Subscription subscription) except *
