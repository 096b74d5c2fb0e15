cimport cython

from midge.jetstream.store cimport lookups, removing
from midge.jetstream.store.entering cimport KnownSubjects, enter_lines
from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.store.indexes cimport AppendedMessage, Indexes, Run
from midge.jetstream.store.interface cimport MessageView, LoadedMessage
from midge.jetstream.store.block cimport Block
from midge.protocol cimport lines as protocol_lines
from midge.protocol.frame cimport Frame

cdef Py_ssize_t _SUBJECT_MAX
cdef unsigned long long _FAR, _NEAR, _SEQ_MAX


cdef class Store(Indexes):
    cdef AppendedMessage incoming
    cdef MessageView _view
    cdef KnownSubjects _known
    cdef public bytes saved_config

    @cython.locals(incoming=AppendedMessage)
    cpdef unsigned long long append(
        self, bytes subject, bytes headers, bytes payload, long long time_ns,
        unsigned long long seq=*, long long ttl_s=*, bytes msg_id=*
    ) except 0
    @cython.locals(incoming=AppendedMessage)
    cpdef unsigned long long append_frame(self, Frame frame, long long time_ns) except 0
    cpdef unsigned long long begin_epoch(self) except 0
    cpdef void remember_subject(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long epoch
    ) except *
    @cython.locals(known=KnownSubjects)
    cpdef Py_ssize_t resolve_lines(self, PublishedLines lines, unsigned long long epoch) except -1
    @cython.locals(known=KnownSubjects, done=Py_ssize_t, placed=Py_ssize_t,
                   seq="unsigned long long", size="unsigned long long", run=Run)
    cpdef Py_ssize_t append_lines(self, PublishedLines lines, long long time_ns) except -1
    cpdef void skip_to(self, unsigned long long last_seq) except *
    cpdef bint remove(self, unsigned long long seq, bint erase=*) except -1
    cpdef Py_ssize_t enforce(self, long long max_messages, long long max_bytes) except -1
    cpdef Py_ssize_t trim_subject(self, bytes subject, unsigned long long keep) except -1
    cpdef Py_ssize_t purge(
        self, bytes subject=*, unsigned long long upto_seq=*, unsigned long long keep=*
    ) except -1
    @cython.locals(count=Py_ssize_t, seq="unsigned long long", unsure_seq="unsigned long long")
    cpdef Py_ssize_t expire(self, long long before_ns, Py_ssize_t limit, object waiter=*) except -1
    cpdef LoadedMessage load(self, unsigned long long seq)
    cpdef void load_departing(self, unsigned long long seq, object take) except *
    @cython.locals(row=Py_ssize_t, block=Block, run=Run)
    cpdef bint show(self, unsigned long long seq, MessageView view) except -1
    @cython.locals(seq="unsigned long long")
    cpdef bint show_next(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq,
        MessageView view
    ) except -1
    cpdef int try_next(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq,
        MessageView view, object waiter
    ) except? -1
    cpdef bint is_cached(self, unsigned long long seq, object waiter) except -1
    cpdef bint is_time_cached(self, unsigned long long seq, object waiter) except -1
    cpdef bint is_first_time_cached(self, object waiter) except -1
    cpdef unsigned long long next_seq(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq=*
    ) except? 0
    cpdef unsigned long long next_last_seq(
        self, tuple filters, unsigned long long start_seq, unsigned long long upto_seq=*
    ) except? 0
    cpdef bint exists(self, unsigned long long seq) except -1
    cpdef bytes subject_of(self, unsigned long long seq)
    @cython.locals(row=Py_ssize_t)
    cpdef unsigned long long size_of(self, unsigned long long seq) except? 0
    cpdef long long time_of(self, unsigned long long seq) except? -1
    cpdef long long first_time_ns(self) except? -1
    @cython.locals(number=Py_ssize_t)
    cpdef unsigned long long first_for_subject(self, bytes subject) except? 0
    @cython.locals(number=Py_ssize_t)
    cpdef unsigned long long last_for_subject(self, bytes subject) except? 0
    @cython.locals(number=Py_ssize_t)
    cpdef unsigned long long count_for_subject(self, bytes subject) except? 0
    cpdef unsigned long long last_matching(
        self, bytes subject, unsigned long long upto_seq=*, bint is_near=*
    ) except? 0
    cpdef unsigned long long count_pending(
        self, tuple filters, unsigned long long start_seq, bint last_per_subject=*,
        unsigned long long end_seq=*
    ) except? 0
    @cython.locals(low="unsigned long long", high="unsigned long long",
                   middle="unsigned long long", seq="unsigned long long",
                   found="unsigned long long")
    cpdef unsigned long long seq_at_time(self, long long time_ns) except? 0
    @cython.locals(length=Py_ssize_t, offset="unsigned long long", size="unsigned long long")
    cdef bint _store(self, AppendedMessage incoming) except -1
