# C types for router.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.observer cimport Observer
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport QueueGroup, SubListResult

cdef int DENIED_SUBJECTS, NO_HEADERS


cdef class Router:
    cdef public object chooser
    cdef public Observer observer
    cdef readonly unsigned long long batches
    cdef readonly long long offers
    cdef list _dirty

    @cython.locals(plain=Py_ssize_t, queued=Py_ssize_t, subscriptions=tuple,
                   subscription=RoutedSubscription,
                   group=QueueGroup)
    cpdef Py_ssize_t route(
        self, Account account, SubListResult result, Client publisher, Frame frame
    ) except -1
    @cython.locals(subscriptions=tuple, subscription=RoutedSubscription, client=Client, checks=int,
                   observer=Observer)
    cpdef bint route_run(
        self, Account account, SubListResult result, Client publisher, Frame frame,
        Py_ssize_t count
    ) except -1
    @cython.locals(client=Client, allowed=Frame, checks=int)
    cpdef bint deliver(
        self, RoutedSubscription subscription, Client publisher, Frame frame
    ) except -1
    cpdef void touch(self, Client client) except *
    @cython.locals(dirty=list, client=Client, done=Py_ssize_t)
    cpdef void flush(self) except *
    @cython.locals(members=tuple, count=Py_ssize_t, start=Py_ssize_t, i=Py_ssize_t,
                   chosen=Py_ssize_t, member=RoutedSubscription)
    cdef bint _deliver_to_group(self, QueueGroup group, Client publisher, Frame frame) except -1
