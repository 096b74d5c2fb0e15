cimport cython

from midge.protocol.frame cimport Frame
from midge.server.internal.service cimport Service, Services
from midge.server.jetstream.ingest cimport charge
from midge.server.jetstream.message_requests cimport MessageRequests
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription

cdef tuple _BUCKETS, _IN_DOMAIN, _AT_ONCE
cdef unsigned long long _REQUEST_WORK


cdef class InternalSubscription(RoutedSubscription):
    cdef object _take

    cpdef bint receive(self, Client publisher, Frame frame) except -1


cdef class ApiService(RoutedSubscription):
    cdef object _account
    cdef Services _services
    cdef Service _queued
    cdef bytes _prefix
    cdef bint _is_renamed
    cdef MessageRequests _requests
    cdef object _domain_sink
    cdef bint _is_system

    @cython.locals(requests=MessageRequests, subject=bytes, reply=bytes, headers=bytes,
                   payload=bytes, request=bytes, is_taken=bint, is_known=bint)
    cpdef bint receive(self, Client publisher, Frame frame) except -1
