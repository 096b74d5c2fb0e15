# C types for subjects.py: byte loops over `bytes` that Cython turns into plain C.

cimport cython

cdef int _DOT, _STAR, _GREATER, _SPACE, _TAB, _CR, _LF


@cython.locals(
    length=Py_ssize_t, token_start=Py_ssize_t, i=Py_ssize_t, byte=cython.uchar, fwc_seen=bint
)
cpdef bint is_valid_subject(bytes subject) except -1

@cython.locals(length=Py_ssize_t, i=Py_ssize_t, byte=cython.uchar, at_token_start=bint)
cpdef bint is_literal(bytes subject) except -1

cpdef bint is_valid_publish_subject(bytes subject) except -1

@cython.locals(literal_length=Py_ssize_t, pattern_length=Py_ssize_t, i=Py_ssize_t, p=Py_ssize_t,
               byte=cython.uchar, token_ends=bint)
cpdef bint matches(bytes literal, bytes pattern) except -1

@cython.locals(pattern_tokens=list, subject_tokens=list, i=Py_ssize_t)
cpdef bint covers(bytes pattern, bytes subject) except -1

@cython.locals(tokens=list, others=list, i=Py_ssize_t)
cpdef bint overlaps(bytes one, bytes other) except -1

@cython.locals(i=Py_ssize_t)
cpdef bint has_dot(bytes subject, Py_ssize_t start=*) except -1

@cython.locals(data="const unsigned char *", last=Py_ssize_t, i=Py_ssize_t,
               dot=cython.uchar, pairs=cython.uchar)
cpdef bint has_empty_token(bytes subject, Py_ssize_t start=*) except -1
