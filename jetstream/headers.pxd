# C types for headers.py.

cimport cython

cdef bytes _VERSION, _LINE_END
cdef int _EMPTY_SIZE, _CR, _SPACE


@cython.locals(at=Py_ssize_t, start=Py_ssize_t, colon=Py_ssize_t, end=Py_ssize_t, value=Py_ssize_t,
               found=dict, name=bytes)
cpdef dict nats_headers(bytes block)

@cython.locals(start=Py_ssize_t, value=Py_ssize_t, end=Py_ssize_t)
cpdef bytes find(bytes block, bytes name)

cdef Py_ssize_t _line(bytes block, bytes name) except -2

cpdef bytes add(bytes block, bytes name, bytes value)

@cython.locals(start=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t)
cpdef bytes replace(bytes block, bytes name, bytes value)

@cython.locals(start=Py_ssize_t, end=Py_ssize_t)
cpdef bytes remove(bytes block, bytes name)

@cython.locals(at=Py_ssize_t, end=Py_ssize_t)
cpdef bytes remove_prefix(bytes block, bytes prefix)

@cython.locals(end=Py_ssize_t)
cpdef bytes to_store(bytes block)

cpdef bytes without_request_info(bytes block)
