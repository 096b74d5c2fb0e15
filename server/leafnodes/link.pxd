# C types for link.py.

cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame, compose, with_subject, without_headers
from midge.protocol.leaf cimport LeafParser
from midge.server.auth.permissions cimport Permissions
from midge.server.clients.channel cimport Channel, ChannelOwner
from midge.server.clients.reading cimport Reading
from midge.server.leafnodes.outbound cimport LeafOutbound
from midge.server.routing.client cimport Client
from midge.sublist.result cimport Remotes, SubListResult
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport RemoteSubscription

cdef int BEHIND, CLOSED, DENIED_SUBJECTS, NO_HEADERS, OVERSIZED, REPLY_GRANTS, _CONNECTED, _LEAF
cdef Py_ssize_t COMMAND_BYTES, STEP_BYTES, _CARE_BYTES, _VIEW_BYTES
cdef Py_ssize_t _DELIVERY_BYTES, _DELIVERY_IN_RUN_BYTES
cdef bytes _PING, _PONG, _ACK_PREFIX


cdef class LeafLink(ChannelOwner):
    cdef readonly object broker
    cdef readonly LeafParser parser
    cdef readonly object side
    cdef readonly LeafOutbound leaf_outbound
    cdef readonly bint is_ready
    cdef public str cluster
    cdef public str name
    cdef public str remote_account
    cdef public object told
    cdef readonly dict interest
    cdef public Py_ssize_t max_interest
    cdef readonly Permissions send_rules
    cdef readonly Permissions take_rules
    cdef readonly Py_ssize_t peer_max_payload
    cdef SubListResult _view
    cdef SubList _view_of
    cdef unsigned long long _generation
    cdef bint _is_unusual

    cpdef void send_ping(self) except *
    cpdef void opened(self) except *
    cpdef void closed(self) except *
    cpdef void lost(self) except *
    cpdef void on_connect(self, bytes document) except *
    cpdef void on_info(self, bytes document) except *
    cpdef void on_peer_error(self, bytes text) except *
    cpdef void on_ping(self) except *
    cpdef void on_pong(self) except *
    @cython.locals(key=tuple, told=RemoteSubscription, change="long long", sublist=SubList,
                   steps="long long")
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    @cython.locals(told=RemoteSubscription, sublist=SubList, steps="long long")
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    @cython.locals(view=SubListResult)
    cpdef void on_publish(self, Frame frame) except *
    @cython.locals(view=SubListResult, cost=Py_ssize_t, deliveries=Py_ssize_t, taken=Py_ssize_t)
    cpdef Py_ssize_t on_publish_run(self, Frame frame, Py_ssize_t count) except -1
    cpdef void on_link_message(self, Frame frame, list queues) except *
    cdef bint _needs_care(self, Frame frame) except -1
    @cython.locals(subject=bytes, mapped=bytes, found=SubListResult, view=SubListResult,
                   shown=Frame)
    cdef void _take_with_care(self, Frame frame, list queues) except *
    @cython.locals(rules=Permissions)
    cdef bint _may_take(self, bytes subject) except -1
    @cython.locals(offers="long long")
    cdef void _route(self, SubListResult view, Frame frame) except *
    @cython.locals(sublist=SubList, start=Py_ssize_t, steps="long long", found=SubListResult)
    cdef SubListResult _found(self, Frame frame)
    @cython.locals(sublist=SubList, view=SubListResult)
    cdef SubListResult _match(self, Frame frame)
    cdef SubListResult _plain_view(self, SubListResult found)
    @cython.locals(named=set, groups=tuple)
    cdef SubListResult _with_queues(self, SubListResult found, list queues)
    @cython.locals(plain=tuple, groups=tuple)
    cdef Remotes _others(self, Remotes remotes, set named)
    cdef bint _sends_on(self, object link) except -1
    @cython.locals(allowed=Frame)
    cpdef bint forward(self, Client publisher, Frame frame, list queues) except -1
    @cython.locals(checks=int)
    cpdef bint takes_run(self, Client publisher, Frame frame) except -1
    cpdef void forward_run(self, Frame frame, Py_ssize_t count) except *
    cdef void _appended(self) except *
    @cython.locals(checks=int, subject=bytes, reply=bytes)
    cdef Frame _checked(self, Client publisher, Frame frame)


@cython.locals(reply=bytes, at=Py_ssize_t)
cdef Frame _shown(Frame frame)
