cimport cython

from midge.jetstream.api cimport consumers
from midge.jetstream.api.call cimport ApiCall, Family

cdef Py_ssize_t _PREFIX_SIZE


cpdef Family find(list tokens)

cdef Family _find_stream(list tokens)

@cython.locals(tokens=list, family=Family, call=ApiCall)
cpdef bint handle(
    object account, bytes subject, bytes headers, bytes body, object respond, object client=*,
    object is_wanted=*
) except -1
