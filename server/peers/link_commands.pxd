# C types for link_commands.py.

cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame, with_subject
from midge.protocol.handler cimport Handler
from midge.server.auth.permissions cimport Permissions
from midge.server.peers.link cimport Branch, Link
from midge.server.routing cimport trace_headers
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.sublist.result cimport Remotes, SubListResult
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport RemoteSubscription

cdef Py_ssize_t STEP_BYTES, _CARE_BYTES, _VIEW_BYTES, _PUB_BYTES
cdef Py_ssize_t _DELIVERY_BYTES, _DELIVERY_IN_RUN_BYTES, _TRACED_BYTES
cdef bytes _PONG, _ACK_PREFIX


cdef class LinkCommands(Handler):
    cdef public Link link
    cdef readonly dict branches
    cdef Branch _here
    cdef bytes _here_name
    cdef bint _maps
    cdef SubListResult _view
    cdef SubList _view_of
    cdef unsigned long long _generation
    cdef bint _is_unusual
    cdef list _for_groups
    cdef bint _names_every_group

    cpdef object sender(self)
    cpdef void on_budget_spent(self) except *
    cpdef void on_connect(self, bytes document) except *
    cpdef void on_info(self, bytes document) except *
    cpdef void on_peer_error(self, bytes text) except *
    cpdef void on_ping(self) except *
    cpdef void on_pong(self) except *
    @cython.locals(link=Link, here=Branch, is_leaf=bint, origin=str, is_last_choice=bint,
                   remote=RemoteSubscription)
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    @cython.locals(here=Branch)
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    cpdef Branch carry(self, Account account)
    @cython.locals(found=Branch)
    cpdef Branch branch(self, bytes name)
    cpdef Branch make_branch(self, bytes name)
    cdef Branch named(self, bytes name)
    cpdef Account account_of_lines(self)
    cpdef void lost(self) except *
    cpdef Branch present(self)
    cpdef Branch source_of(self, Frame frame)
    @cython.locals(source=Client)
    cpdef bint on_publish(self, Frame frame) except -1
    @cython.locals(source=Client)
    cpdef Py_ssize_t on_publish_run(self, Frame frame, Py_ssize_t count) except -1
    @cython.locals(source=Client)
    cpdef void on_link_message(self, Frame frame, list queues) except *
    @cython.locals(is_traced=bint)
    cpdef bint take(self, Client source, Frame frame) except -1  # `except *` takes a call
    @cython.locals(view=SubListResult, cost=Py_ssize_t, deliveries=Py_ssize_t, taken=Py_ssize_t)
    cpdef Py_ssize_t take_run(self, Client source, Frame frame, Py_ssize_t count) except -1
    @cython.locals(found=SubListResult)
    cpdef void take_for(self, Client source, Frame frame, list queues) except *
    cdef list _queues_of(self, Frame frame)
    cdef bint _needs_care(self, Account account, Frame frame) except -1
    @cython.locals(subject=bytes, mapped=bytes, found=SubListResult, view=SubListResult,
                   is_mapped=bint)
    cdef void _take_with_care(
        self, Client source, Frame frame, list queues, object trace
    ) except *
    @cython.locals(shown=Frame, offers="long long", taken="long long")
    cdef void _route_as_shown(
        self, Client source, SubListResult view, Frame frame, object trace
    ) except *
    cdef bint _take_traced(self, Client source, Frame frame, list queues) except -1
    @cython.locals(rules=Permissions)
    cdef bint _may_take(self, bytes subject) except -1
    @cython.locals(offers="long long")
    cdef bint _route(self, Client source, SubListResult view, Frame frame) except -1  # likewise
    @cython.locals(start=Py_ssize_t, steps="long long", found=SubListResult)
    cdef SubListResult _found(self, SubList sublist, Frame frame)
    @cython.locals(sublist=SubList, view=SubListResult, found=SubListResult)
    cdef SubListResult _match(self, Client source, Frame frame)
    cdef SubListResult _view_for(self, Client source, SubListResult found, list queues)


cdef SubListResult plain_view(Client source, SubListResult found)


cdef SubListResult full_view(Client source, SubListResult found)


@cython.locals(only=tuple, named=set, groups=tuple)
cdef SubListResult view_for(Client source, SubListResult found, list queues)


@cython.locals(plain=tuple, groups=tuple)
cdef Remotes _others(Client source, Remotes remotes, set named)
