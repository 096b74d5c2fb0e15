cimport cython

from midge.jetstream.environment.sink cimport Receiver, Sink
from midge.jetstream.store.interface cimport MessageView
from midge.protocol cimport lines
from midge.protocol.frame cimport Frame, compose
from midge.server.internal.internal_publisher cimport InternalPublisher
from midge.server.jetstream.receiver cimport (
    ClientReceiver, MessageLine, ProducersTurn, receiver_of, single, write, write_stored,
)
from midge.server.routing.account cimport Account
from midge.server.routing.client cimport Client
from midge.server.routing.router cimport Router
from midge.server.routing.subscription cimport RoutedSubscription
from midge.sublist.result cimport Remotes, SubListResult
from midge.sublist.subscription cimport Subscription


cdef class Watched:
    cdef readonly tuple kind
    cdef readonly object changed


cdef class Interest:
    cdef Account _account
    cdef public object links
    cdef dict _watched, _importers

    @cython.locals(watched=Watched)
    cpdef object watch(self, bytes subject, object changed, bytes group)
    cpdef void unwatch(self, object token) except *
    @cython.locals(result=SubListResult)
    cdef void _watch_importers(self, tuple kind) except *
    @cython.locals(watched=Watched)
    cpdef void report(self, bytes subject, bytes queue) except *


cdef class AccountSink(Sink):
    cdef readonly Account account
    cdef readonly InternalPublisher publisher
    cdef readonly ProducersTurn turn
    cdef Router _router
    cdef MessageLine _line
    cdef Interest _interest

    @cython.locals(result=SubListResult, subscription=RoutedSubscription, link=Client, frame=Frame,
                   is_sendable=bint)
    cpdef Py_ssize_t send(self, bytes subject, bytes reply, bytes headers, bytes payload) except -1
    @cython.locals(subscription=RoutedSubscription)
    cpdef Py_ssize_t send_stored(
        self, bytes subject, bytearray head, Py_ssize_t head_end, MessageView message
    ) except -1
    @cython.locals(result=SubListResult, frame=Frame, over=Frame)
    cpdef bint deliver(
        self, bytes deliver_subject, bytes message_subject, bytes reply, bytes headers,
        bytes payload
    ) except -1
    @cython.locals(result=SubListResult)
    cpdef Receiver receiver(self, bytes subject)
    cdef SubListResult _match(self, bytes subject)
    @cython.locals(result=SubListResult)
    cpdef bint has_interest(self, bytes subject) except -1


@cython.locals(result=SubListResult, one=Subscription)
cpdef bint is_subscribed(Account account, bytes subject, bytes group) except -1

cdef bint _is_for(Subscription one, bytes subject, bytes group=*) except -1

@cython.locals(links=tuple)
cpdef Client only_link(SubListResult result)
