cimport cython

from midge.protocol cimport memory
from midge.protocol.frame cimport Frame
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.flush_scheduler cimport FlushScheduler
from midge.server.routing.message_observer cimport MessageObserver
from midge.server.routing.receivers cimport (
    forward, forward_run, links_take_run, pick_instead, pick_links, send_to_all,
)
from midge.server.routing.runs cimport append_run_in_turn, takes_run
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport QueueGroup, Remotes, SubListResult

cdef int BEHIND, NO_HEADERS, REFUSED, TAKEN, FAILED


@cython.final
cdef class Router(FlushScheduler):
    cdef public object chooser
    cdef readonly object faults
    cdef public MessageObserver observer
    cdef readonly long long offers, choices
    cdef readonly Py_ssize_t crossed
    cdef readonly list carried
    cdef readonly object sizes
    cdef long long *counts_by_size
    cdef public object spans

    @cython.locals(remotes=Remotes, taken=Py_ssize_t, lone=RoutedSubscription)
    cpdef Py_ssize_t route(
        self, Account account, SubListResult result, Client publisher, Frame frame
    ) except -1
    @cython.locals(plain=Py_ssize_t, queued=Py_ssize_t, failed=Py_ssize_t, crossed=Py_ssize_t,
                   outcome=int,
                   picked=dict, carried=dict, subscriptions=tuple,
                   subscription=RoutedSubscription, group=QueueGroup)
    cdef Py_ssize_t _route_widely(
        self, Account account, SubListResult result, Client publisher, Frame frame, Frame over
    ) except -1
    cpdef Py_ssize_t route_in_two_forms(
        self, Account account, SubListResult result, Client publisher, Frame frame, Frame over
    ) except -1
    @cython.locals(remotes=Remotes, picked=dict)
    cdef dict _pick_links(self, SubListResult result, Client publisher, dict carried)
    @cython.locals(link=Client)
    cdef dict _pick_instead(self, bytes name, SubListResult result, Client publisher, dict picked)
    @cython.locals(taken=Py_ssize_t, carried=dict)
    cdef Py_ssize_t _deliver_to_all(
        self, tuple subscriptions, Client publisher, Frame frame
    ) except -1
    @cython.locals(taken=Py_ssize_t, subscription=RoutedSubscription)
    cdef Py_ssize_t _offer_to_all(
        self, tuple subscriptions, Client publisher, Frame frame
    ) except -1
    @cython.locals(subscriptions=tuple, subscription=RoutedSubscription,
                   internal=RoutedSubscription, observer=MessageObserver)
    cpdef Py_ssize_t route_run(
        self, Account account, SubListResult result, Client publisher, Frame frame,
        Py_ssize_t count
    ) except -1
    @cython.locals(client=Client, allowed=Frame)
    cpdef int deliver(
        self, RoutedSubscription subscription, Client publisher, Frame frame
    ) except -1
    cdef int _append(self, RoutedSubscription subscription, Client client, Frame frame) except -1
    @cython.locals(members=tuple, count=Py_ssize_t, start=Py_ssize_t, i=Py_ssize_t,
                   chosen=Py_ssize_t, outcome=int, member=RoutedSubscription)
    cdef int _deliver_to_group(self, QueueGroup group, Client publisher, Frame frame) except -1
    @cython.locals(served=tuple, member=RoutedSubscription, client=Client)
    cdef Py_ssize_t _route_run_in_turn(
        self, SubListResult result, Frame frame, Py_ssize_t count
    ) except -1
    @cython.locals(subscriptions=tuple, subscription=RoutedSubscription, client=Client,
                   crossed=Py_ssize_t)
    cdef void _append_run(
        self, Account account, SubListResult result, Client publisher, Frame frame,
        Py_ssize_t count
    ) except *
    @cython.locals(base=Py_ssize_t, taken=Py_ssize_t, has_failed=bint)
    cdef Py_ssize_t _route_run_through(
        self, RoutedSubscription internal, Account account, SubListResult result,
        Client publisher, Frame frame, Py_ssize_t count
    ) except -1
    @cython.locals(subscriptions=tuple, subscription=RoutedSubscription)
    cdef bint _all_take_run(self, SubListResult result, Frame frame) except -1
    @cython.locals(subscriptions=tuple, subscription=RoutedSubscription, crossed=Py_ssize_t)
    cdef void _route_past(
        self, RoutedSubscription internal, Account account, SubListResult result,
        Client publisher, Frame frame, Py_ssize_t plain
    ) except *
    @cython.locals(base=Py_ssize_t)
    cdef int _receive(
        self, RoutedSubscription subscription, Client publisher, Frame frame
    ) except -1
    @cython.locals(observer=MessageObserver)
    cdef void _show_message(
        self, Account account, Client publisher, Frame frame, Py_ssize_t plain,
        Py_ssize_t queued
    ) except *
    @cython.locals(observer=MessageObserver, base=Py_ssize_t)
    cdef void _show_run(
        self, Account account, Client publisher, Frame frame, Py_ssize_t count,
        Py_ssize_t plain
    ) except *


cdef bint _is_in(dict groups, bytes name) except -1
