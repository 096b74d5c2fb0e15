# C types for disk.py.

cimport cython


@cython.final
cdef class Write:
    cdef readonly object file
    cdef public bytearray data
    cdef public Py_ssize_t used
    cdef public long long position
    cdef public bint seal
    cdef public unsigned int seed
    cdef public unsigned long long segment
    cdef public bint sync
    cdef public bint with_directory
    cdef public bint is_passing
    cdef public bint is_overwriting
    cdef public long long extend
    cdef public bint zeroed
    cdef public long long warm_start
    cdef public long long warm_end
