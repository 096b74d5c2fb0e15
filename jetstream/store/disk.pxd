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
    cdef public bint sync, with_directory, is_passing, is_overwriting
    cdef public long long extend
    cdef public bint zeroed
    cdef public long long warm_start, warm_end
