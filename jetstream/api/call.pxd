cdef class Family:
    cdef readonly str type
    cdef readonly bytes head
    cdef readonly object handle
    cdef readonly dict with_error
    cdef readonly bint takes_body
    cdef readonly Py_ssize_t body_max
    cdef readonly bint is_body_first, is_checked


cdef class ApiCall:
    cdef readonly object account
    cdef readonly Family family
    cdef readonly list tokens
    cdef readonly bytes headers, body
    cdef readonly object client, is_wanted
    cdef public bint is_counted
    cdef object _respond
    cdef bytes _response, _response_headers

    cpdef void check(self) except *
    cpdef object decode(self, object kind, object into)
    cpdef object decode_optional(self, object kind, object into)
    cpdef void answer(self, dict fields, object after=*, bytes headers=*) except *
    cpdef void respond(self, bytes response, object after=*, bytes headers=*) except *
    cpdef void _give(self) except *
    cpdef void refuse(self, object error) except *
