cimport cython


@cython.final
cdef class BoundedCache:
    cdef readonly dict entries
    cdef readonly Py_ssize_t most

    cpdef object get(self, object key)
    cpdef void put(self, object key, object answer) except *
