# C types for loops.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.protocol.parser cimport Parser
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.outbound cimport Outbound
from midge.server.routing.router cimport Router
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport SubListResult
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport Subscription


cdef class Counting(RoutedSubscription):
    cdef public long long messages

    cpdef bint receive(self, Client publisher, Frame frame) except -1
    cpdef bint takes_runs(self) noexcept
    cpdef Py_ssize_t receive_run(self, Client publisher, Frame frame, Py_ssize_t count) except -1


@cython.locals(subject=bytes, result=SubListResult)
cpdef SubListResult match(SubList sublist, list subjects)

@cython.locals(subscription=Subscription)
cpdef object insert(SubList sublist, list subscriptions)

@cython.locals(subscription=Subscription)
cpdef object remove(SubList sublist, list subscriptions)

@cython.locals(subject=bytes, index=Py_ssize_t, turn=Py_ssize_t)
cpdef object churn(SubList sublist, list subscriptions, list subjects)

cpdef Py_ssize_t parse(Parser parser, bytearray buffer) except -1

@cython.locals(outbound=Outbound)
cpdef object fan_out(list outbounds, Frame frame, bytes sid, Py_ssize_t count)

cpdef object route(
    Router router, Account account, SubListResult result, Frame frame, Py_ssize_t count
)
