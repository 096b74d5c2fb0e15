# C types for loops.py.

cimport cython

from midge.protocol.frame cimport Frame
from midge.protocol.parser cimport Parser
from midge.server.routing.outbound cimport Outbound
from midge.sublist.result cimport SubListResult
from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport Subscription


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
