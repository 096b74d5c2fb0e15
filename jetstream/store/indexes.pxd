cimport cython

from midge.jetstream.store cimport layout
from midge.jetstream.store.filters cimport Filters
from midge.jetstream.store.interface cimport MessageView
from midge.jetstream.store.message_index cimport MessageIndex
from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.store.subject_index cimport SubjectIndex

cdef Py_ssize_t _FILTERS_KEPT, _PATTERNS_KEPT


cdef class Indexes


@cython.final
cdef class Run:
    cdef public unsigned long long first_seq
    cdef public object place
    cdef public Py_ssize_t live
    cdef public unsigned long long live_bytes


@cython.final
cdef class AppendedMessage:
    cdef const unsigned char *subject
    cdef public Py_ssize_t subject_start, subject_end
    cdef const unsigned char *headers
    cdef public Py_ssize_t headers_start, headers_end
    cdef const unsigned char *payload
    cdef public Py_ssize_t payload_start, payload_end
    cdef public unsigned long long seq
    cdef public long long time_ns, ttl_s
    cdef public bytes msg_id


cdef class Medium:
    cdef Indexes index

    cdef unsigned long long place(self, AppendedMessage incoming) except? 0xFFFFFFFF
    cdef Py_ssize_t place_lines(self, PublishedLines lines, Py_ssize_t first) except -1
    cdef bint view_at(
        self, MessageView view, Run run, unsigned long long offset, unsigned long long size,
        Py_ssize_t number
    ) except -1
    cdef long long time_of(self, unsigned long long seq) except? -1
    cdef long long first_time_ns(self) except? -1
    cdef bint is_cached(self, unsigned long long seq, object waiter) except -1
    cdef bint is_time_cached(self, unsigned long long seq, object waiter) except -1
    cdef bint is_first_time_cached(self, object waiter) except -1
    cdef bint fetch_departing(self, unsigned long long seq, object take) except -1
    cdef void admit(self) except *
    cdef void moved(self) except *
    cdef void removed(self, unsigned long long seq) except *
    cdef void purged(self, bytes subject, unsigned long long upto) except *
    cdef void run_shrank(self, Py_ssize_t i, Run run, unsigned long long size) except *


cdef class Indexes:
    cdef readonly unsigned long long first_seq, last_seq, visible_seq, messages, bytes
    cdef readonly long long last_time_ns
    cdef readonly unsigned long long subject_count, removals
    cdef public unsigned long long work
    cdef readonly unsigned long long group
    cdef public bint is_async
    cdef public list keepers
    cdef readonly Medium medium
    cdef SubjectIndex subject_index
    cdef MessageIndex message_index
    cdef list runs
    cdef object turns
    cdef bint is_releasing
    cdef unsigned long long _fixed_bytes, _fixed_bytes_with_headers
    cdef dict _filters
    cdef tuple _latest_filters
    cdef Filters _latest_found
    cdef Py_ssize_t _patterns_kept

    @cython.locals(fixed="unsigned long long")
    cdef unsigned long long counted(
        self, Py_ssize_t subject, Py_ssize_t headers, Py_ssize_t payload
    ) noexcept
    @cython.locals(subjects=SubjectIndex, seq="unsigned long long", number=Py_ssize_t, run=Run)
    cdef bint enter(
        self, AppendedMessage incoming, unsigned long long offset, unsigned long long size
    ) except -1
    @cython.locals(row=Py_ssize_t, size="unsigned long long", i=Py_ssize_t, run=Run,
                   following="unsigned long long")
    cdef bint drop(self, unsigned long long seq) except -1
    @cython.locals(subjects=SubjectIndex, index=MessageIndex, number=Py_ssize_t,
                   count="unsigned long long", before="unsigned long long",
                   after="unsigned long long")
    cdef void _unlink(self, unsigned long long seq, Py_ssize_t row) except *
    cdef void keep(self, unsigned long long seq) except *
    @cython.locals(runs=list, run=Run)
    cdef void clear(self) except *
    @cython.locals(runs=list, last=Py_ssize_t, low=Py_ssize_t, high=Py_ssize_t,
                   middle=Py_ssize_t, run=Run)
    cdef Py_ssize_t run_index(self, unsigned long long seq) except -1
    @cython.locals(found=Filters)
    cdef Filters filters_of(self, tuple filters)
