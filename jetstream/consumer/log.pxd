# C types for log.py.

cimport cython

from midge.jetstream.consumer.position cimport Position

cdef Py_ssize_t _MOST_CHANGES


@cython.final
cdef class ConsumerLog:
    cdef Position _position
    cdef list _changed
    cdef list _replies
    cdef object _timer
    cdef unsigned int _logged_bytes
    cdef unsigned int _snapshot_bytes
    cdef bint _had_counts
    cdef bint _is_dirty
    cdef bint _is_confirming

    cpdef void changed(self, unsigned long long seq) except *
    cpdef void moved(self) except *
    cpdef void confirm(self, bytes reply) except *
