cimport cython

from midge.protocol cimport memory

cdef unsigned char _ESCAPE, _CODE, _QUOTE, _MINUS, _ZERO


cpdef object read(bytes data)

@cython.locals(text="const unsigned char *", size=Py_ssize_t, at=Py_ssize_t, quotes=Py_ssize_t,
               escapes=Py_ssize_t, others=bint)
cdef Py_ssize_t _quotes_in(bytes data) except -2

@cython.locals(count=Py_ssize_t)
cdef Py_ssize_t _texts_in(object value) except -1

@cython.locals(found=list, reader=tuple, attribute=str)
cpdef bint assign(object made, dict value, dict readers) except -1
