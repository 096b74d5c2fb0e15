# C types for routes.py.

cimport cython

from midge.jetstream.stream.direct_get cimport DirectGet

cdef Py_ssize_t _NEXT_SIZE, _DIRECT_GET_SIZE


cpdef object stream_of(object account, bytes name)

cpdef object consumer_of(object account, bytes stream, bytes name)

@cython.locals(stream=bytes, name=bytes)
cpdef object consumer_of_pull(object account, bytes subject)

cpdef bint take_pull(
    object account, bytes subject, bytes reply, bytes headers, bytes body
) except -1

@cython.locals(name=bytes, message_subject=bytes, direct=DirectGet)
cpdef bint take_direct_get(
    object account, bytes subject, bytes reply, bytes headers, bytes body
) except -1

cpdef bint take_at_once(
    object account, bytes subject, bytes reply, bytes headers, bytes body
) except -1

cdef bint _is_level_known(bytes headers) except -1
