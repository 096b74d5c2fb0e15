cimport cython

from midge.jetstream.consumer.consumer_set cimport ConsumerSet
from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.store.store cimport Store
from midge.jetstream.stream.incoming cimport Incoming

cdef int _UNLIMITED, _SLICES, _HEADERS_MAX, _RECORD_MAX
cdef bytes _ALL, _NO_BYTES
cdef Py_ssize_t _MEANWHILE, _FIXED_MAX


@cython.final
cdef class Usage:
    cdef public long long limit
    cdef public Usage parent
    cdef public long long used

    @cython.locals(usage=Usage)
    cpdef void add(self, long long size) noexcept
    @cython.locals(parent=Usage)
    cpdef bint is_exceeded(self, long long size) except -1
    cpdef bint would_exceed_account(self, long long size) except -1
    @cython.locals(parent=Usage)
    cpdef bint has_room(self, long long size) except -1


@cython.final
cdef class Slice:
    cdef readonly long long end_ns
    cdef readonly list ids


@cython.final
cdef class Dedup:
    cdef public long long window_ns
    cdef bint _is_exact
    cdef dict _ids
    cdef Slice _last
    cdef object _slices
    cdef long long _next_ns

    @cython.locals(seq=object)
    cpdef unsigned long long find(self, bytes msg_id, long long now_ns) except? 0
    @cython.locals(current=Slice, length_ns="long long")
    cpdef void add(self, bytes msg_id, unsigned long long seq, long long time_ns) except *
    @cython.locals(current=Slice)
    cpdef void take_back(self, unsigned long long after_seq) except *
    cdef void _forget_before(self, long long time_ns) except *


@cython.final
cdef class Backlog:
    cdef Store _store
    cdef long long _max_messages, _max_bytes
    cdef unsigned long long _group
    cdef long long _messages, _bytes
    cdef unsigned long long _last_seq
    cdef long long _written_messages, _written_bytes
    cdef unsigned long long _written_seq

    @cython.locals(visible="unsigned long long", messages="long long", waiting="long long")
    cpdef bint refuses(self, long long size) except -1
    @cython.locals(group="unsigned long long")
    cpdef void stored(self, unsigned long long seq, long long size) noexcept
    @cython.locals(visible="unsigned long long", messages="long long", waiting="long long")
    cpdef bint refuses_lines(self, long long count, long long size) except -1
    cpdef void stored_lines(self, unsigned long long seq, long long count, long long size) noexcept


@cython.final
cdef class Contents:
    cdef readonly Store store
    cdef readonly Usage usage
    cdef ConsumerSet _consumers
    cdef bint _is_memory
    cdef long long _used_bytes, _max_msgs, _max_bytes
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
