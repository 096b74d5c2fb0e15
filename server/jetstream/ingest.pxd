# C types for ingest.py.

from midge.jetstream.stream.stream cimport Stream
from midge.protocol.frame cimport Frame
from midge.server.clients.gate cimport Gate
from midge.server.routing.client cimport Client
from midge.server.routing.subscription cimport RoutedSubscription


cdef class StreamSubscription(RoutedSubscription):
    cdef readonly Stream stream
    cdef readonly Gate gate

    cpdef bint receive(self, Client publisher, Frame frame) except -1
    cpdef bint takes_runs(self) noexcept
