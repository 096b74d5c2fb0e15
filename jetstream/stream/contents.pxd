# C types for contents.py.

cimport cython

from midge.jetstream.consumer.consumer_set cimport ConsumerSet
from midge.jetstream.store.store cimport Store
from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.stream.incoming cimport Incoming
from midge.jetstream.stream.usage cimport Usage

cdef int _HEADERS_MAX, _RECORD_MAX
cdef bytes _ALL, _NO_BYTES
cdef Py_ssize_t _MEANWHILE, _FIXED_MAX


cdef class Contents:
    cdef readonly Store store
    cdef readonly Usage usage
    cdef ConsumerSet _consumers
    cdef bint _is_memory
    cdef long long _used_bytes
    cdef long long _max_msgs
    cdef long long _max_bytes
    cdef readonly long long max_per_subject
    cdef long long _max_msg_size
    cdef bint _is_new_per_subject
    cdef readonly bint is_discard_new
    cdef bint _has_limits
    cdef public bint is_enforcing
    cdef public Py_ssize_t enforcing
    cdef public list waiting

    cpdef long long size_of(self, Incoming message)
    cdef bint has_room(self, Py_ssize_t size) except -1
    @cython.locals(size="long long", store=Store)
    cdef bint has_room_for(self, PublishedLines lines) except -1
    cpdef check_record_size(self, Incoming message)
    cpdef check_size(self, Incoming message)
    @cython.locals(store=Store)
    cdef bint stored(self) except -1
    @cython.locals(count=Py_ssize_t)
    cpdef void trim_subject(self, bytes subject, Py_ssize_t keep) except *
    @cython.locals(store=Store)
    cpdef void trim_to(self, bytes subject, Py_ssize_t keep) except *
    @cython.locals(used="long long")
    cpdef void account(self) noexcept
