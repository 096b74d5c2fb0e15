cimport cython

from midge.jetstream.consumer.consumer cimport Consumer
from midge.jetstream.stream.stream cimport Stream

cdef Py_ssize_t _NEXT_SIZE


cpdef object stream_of(object account, bytes name)

cpdef object consumer_of(object account, bytes stream, bytes name)

@cython.locals(stream=bytes, name=bytes)
cpdef object consumer_of_pull(object account, bytes subject)

cpdef void pull(object account, Consumer consumer, bytes reply, bytes headers, bytes body) except *

cpdef void direct_get(
    object account, Stream stream, bytes subject, bytes reply, bytes headers, bytes body
) except *

cdef bint _is_level_known(bytes headers) except -1
