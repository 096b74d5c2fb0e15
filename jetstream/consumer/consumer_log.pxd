cimport cython

from midge.jetstream.consumer.position cimport Position

cdef Py_ssize_t _MOST_CHANGES


@cython.final
cdef class ConsumerLog:
    cdef Position _position
    cdef list _changed, _replies
    cdef object _timer
    cdef unsigned int _logged_bytes, _snapshot_bytes
    cdef bint _had_counts, _is_dirty, _is_confirming

    cpdef void changed(self, unsigned long long seq) except *
    cpdef void moved(self) except *
    cpdef void confirm(self, bytes reply) except *
