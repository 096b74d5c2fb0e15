cimport cython

from midge.jetstream.api cimport routes
from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.stream.stream cimport Stream
from midge.protocol cimport memory
from midge.protocol.frame cimport Frame

cdef bytes _NOTHING


cdef class MessageRequests:
    cdef object _streams
    cdef bytes _pull_subject
    cdef Consumer _consumer
    cdef bytes _get_prefix
    cdef Stream _stream
    cdef readonly unsigned long long work

    @cython.locals(data="const unsigned char *", start=Py_ssize_t, end=Py_ssize_t,
                   consumer=Consumer, stream=Stream, reply=bytes, subject=bytes,
                   before="unsigned long long")
    cpdef bint take_next(self, Frame frame) except -1
    @cython.locals(consumer=Consumer, stream=Stream, name=bytes, dot=bytes, wanted=bytes,
                   before="unsigned long long")
    cpdef bint take(self, bytes subject, bytes reply, bytes headers, bytes body) except -1
