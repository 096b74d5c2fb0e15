cimport cython

from midge.protocol.frame cimport Frame
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport QueueGroup

cdef int DENIED_SUBJECTS, NO_HEADERS


@cython.locals(client=Client, checks=int)
cpdef bint takes_run(RoutedSubscription subscription, Frame frame) except -1
@cython.locals(total=Py_ssize_t, base=Py_ssize_t, place=Py_ssize_t, _i=Py_ssize_t,
               member=RoutedSubscription, client=Client)
cdef void _append(tuple members, Frame frame, Py_ssize_t count) except *
@cython.locals(members=tuple, served=tuple, start=Py_ssize_t, member=RoutedSubscription)
cpdef tuple append_run_in_turn(QueueGroup group, Frame frame, Py_ssize_t count)
