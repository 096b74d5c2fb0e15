from cpython.pythread cimport PyThread_type_lock

from midge.sublist cimport thread_lock


cdef class Mutex:
    cdef PyThread_type_lock _lock

    cdef void enter(self) noexcept
    cdef void leave(self) noexcept
