# C types for interface.py.

cimport cython

from midge.jetstream.store.published cimport PublishedLines
from midge.protocol cimport memory
from midge.protocol.frame cimport Frame

cdef bytearray _NOTHING


cdef class StoredMessage:
    cdef readonly unsigned long long seq
    cdef readonly long long time_ns
    cdef readonly bytes subject
    cdef readonly bytes headers
    cdef readonly bytes payload


@cython.final
cdef class MessageView:
    cdef public unsigned long long seq
    cdef public long long time_ns
    cdef const unsigned char *subject
    cdef public Py_ssize_t subject_start
    cdef public Py_ssize_t subject_end
    cdef const unsigned char *body
    cdef public Py_ssize_t headers_start
    cdef public Py_ssize_t payload_start
    cdef public Py_ssize_t payload_end

    cpdef Py_ssize_t size(self) noexcept
    cpdef StoredMessage copied(self)


cdef class SubjectState:
    cdef readonly bytes subject
    cdef readonly unsigned long long count
    cdef readonly unsigned long long first_seq
    cdef readonly unsigned long long last_seq


cdef class GroupListener:
    cpdef void durable(self, unsigned long long group) except *
    cpdef void failed(self, unsigned long long group, object error) except *


cdef class StreamStore:
    cdef readonly unsigned long long first_seq
    cdef readonly unsigned long long last_seq
    cdef readonly unsigned long long visible_seq
    cdef readonly unsigned long long messages
    cdef readonly unsigned long long bytes
    cdef readonly long long last_time_ns
    cdef readonly unsigned long long subject_count
    cdef readonly unsigned long long removals
    cdef public unsigned long long work
    cdef readonly unsigned long long group
    cdef public bint is_async
    cdef public list keepers

    cpdef unsigned long long append(
        self, bytes subject, bytes headers, bytes payload, long long time_ns,
        unsigned long long seq=*, long long ttl_s=*, bytes msg_id=*
    ) except 0
    cpdef unsigned long long append_frame(self, Frame frame, long long time_ns) except 0
    cpdef unsigned long long begin_epoch(self) except 0
    cpdef void know_subject(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long epoch
    ) except *
    cpdef Py_ssize_t resolve_lines(
        self, PublishedLines lines, unsigned long long epoch
    ) except -1
    cpdef Py_ssize_t append_lines(self, PublishedLines lines, long long time_ns) except -1
    cpdef void skip_to(self, unsigned long long last_seq) except *
    cpdef bint remove(self, unsigned long long seq, bint erase=*) except -1
    cpdef Py_ssize_t enforce(self, long long max_messages, long long max_bytes) except -1
    cpdef Py_ssize_t trim_subject(self, bytes subject, unsigned long long keep) except -1
    cpdef Py_ssize_t purge(
        self, bytes subject=*, unsigned long long upto_seq=*, unsigned long long keep=*
    ) except -1
    cpdef Py_ssize_t expire(
        self, long long before_ns, Py_ssize_t limit, object waiter=*
    ) except -1

    cpdef StoredMessage load(self, unsigned long long seq)
    cpdef void load_departing(self, unsigned long long seq, object take) except *
    cpdef StoredMessage load_next(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq=*
    )
    cpdef bint show(self, unsigned long long seq, MessageView view) except -1
    cpdef bint show_next(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq,
        MessageView view
    ) except -1
    cpdef int try_next(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq,
        MessageView view, object waiter
    ) except? -1
    cpdef bint is_at_hand(self, unsigned long long seq, object waiter) except -1
    cpdef bint is_time_at_hand(self, unsigned long long seq, object waiter) except -1
    cpdef bint is_first_time_at_hand(self, object waiter) except -1
    cpdef unsigned long long next_seq(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq=*
    ) except? 0
    cpdef unsigned long long next_last_seq(
        self, tuple filters, unsigned long long start_seq, unsigned long long upto_seq=*
    ) except? 0
    cpdef bint exists(self, unsigned long long seq) except -1
    cpdef bytes subject_of(self, unsigned long long seq)
    cpdef unsigned long long size_of(self, unsigned long long seq) except? 0
    cpdef long long time_of(self, unsigned long long seq) except? -1
    cpdef long long first_time_ns(self) except? -1
    cpdef unsigned long long first_for_subject(self, bytes subject) except? 0
    cpdef unsigned long long last_for_subject(self, bytes subject) except? 0
    cpdef unsigned long long count_for_subject(self, bytes subject) except? 0
    cpdef unsigned long long last_matching(
        self, bytes subject, unsigned long long upto_seq=*, bint is_near=*
    ) except? 0
    cpdef unsigned long long count_subjects(self, bytes subject=*) except? 0
    cpdef unsigned long long count_pending(
        self, tuple filters, unsigned long long start_seq, bint last_per_subject=*,
        unsigned long long end_seq=*
    ) except? 0
    cpdef unsigned long long seq_at_time(self, long long time_ns) except? 0
    cpdef tuple around_time(self, long long time_ns)
    cpdef unsigned long long deleted_count(self) except? 0
