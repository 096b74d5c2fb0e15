# C types for lookups.py.

cimport cython

from midge.jetstream.store.counting cimport count_wanted, next_missing
from midge.jetstream.store.filters cimport Filters
from midge.jetstream.store.indexed cimport Run
from midge.jetstream.store.interface cimport MessageView, StoredMessage, SubjectState
from midge.jetstream.store.message_index cimport Block
from midge.jetstream.store.removing cimport RemovingStore
from midge.jetstream.store.subject_index cimport SubjectIndex

cdef unsigned long long _CHAIN_MAX
cdef Py_ssize_t _ROWS_MAX, _ROWS_PER_SUBJECT, _NOTED_ROWS
cdef unsigned long long _ROWS_PER_WORK, _ROW_WORK
cdef int _WANTED
cdef char _PWC, _FWC


cdef class SearchableStore(RemovingStore):
    cpdef StoredMessage load(self, unsigned long long seq)
    cpdef void load_departing(self, unsigned long long seq, object take) except *
    @cython.locals(position=Py_ssize_t, block=Block, run=Run)
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
    cpdef bint is_at_hand(self, unsigned long long seq, object waiter) except -1
    cpdef bint is_time_at_hand(self, unsigned long long seq, object waiter) except -1
    cpdef bint is_first_time_at_hand(self, object waiter) except -1
    @cython.locals(seq="unsigned long long")
    cpdef StoredMessage load_next(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq=*
    )
    @cython.locals(start="unsigned long long", end="unsigned long long", wanted=Filters,
                   number=Py_ssize_t, seq="unsigned long long", looked=Py_ssize_t,
                   before="unsigned long long", passed="unsigned long long")
    cpdef unsigned long long next_seq(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq=*
    ) except? 0
    @cython.locals(upto="unsigned long long", start="unsigned long long",
                   seq="unsigned long long", after="unsigned long long", left=Py_ssize_t)
    cpdef unsigned long long next_last_seq(
        self, tuple filters, unsigned long long start_seq, unsigned long long upto_seq=*
    ) except? 0
    @cython.locals(found="unsigned long long", last="unsigned long long", number=Py_ssize_t)
    cdef unsigned long long _first_last(
        self, Filters wanted, unsigned long long start, unsigned long long upto
    ) except? 0
    @cython.locals(position=Py_ssize_t)
    cpdef unsigned long long size_of(self, unsigned long long seq) except? 0
    @cython.locals(number=Py_ssize_t)
    cpdef unsigned long long first_for_subject(self, bytes subject) except? 0
    @cython.locals(number=Py_ssize_t)
    cpdef unsigned long long last_for_subject(self, bytes subject) except? 0
    @cython.locals(number=Py_ssize_t)
    cpdef unsigned long long count_for_subject(self, bytes subject) except? 0
    @cython.locals(subject=Py_ssize_t, end=Py_ssize_t)
    cpdef tuple crowded(self, unsigned long long limit, Py_ssize_t number, Py_ssize_t count)
    cdef Py_ssize_t _number_after(self, Py_ssize_t end) noexcept
    @cython.locals(wanted=Filters, end=Py_ssize_t, one=Py_ssize_t)
    cpdef tuple subject_names(self, bytes subject, Py_ssize_t number, Py_ssize_t count)
    @cython.locals(end=Py_ssize_t)
    cpdef Py_ssize_t note_subjects(self, tuple filters, Py_ssize_t number, Py_ssize_t count)
    @cython.locals(wanted=Filters, end=Py_ssize_t, one=Py_ssize_t, seq="unsigned long long",
                   before="unsigned long long", found=list)
    cpdef tuple newest(
        self, tuple filters, Py_ssize_t number, Py_ssize_t count, unsigned long long upto_seq,
        Py_ssize_t most
    )
    @cython.locals(seq="unsigned long long", after="unsigned long long", found=list)
    cpdef list newest_between(
        self, tuple filters, unsigned long long start_seq, unsigned long long end_seq,
        unsigned long long upto_seq, Py_ssize_t most
    )
    cdef bint _is_noted_last(self, Filters wanted) except -1
    @cython.locals(before="unsigned long long")
    cdef void _charge_all(self, Filters wanted) except *
    @cython.locals(upto="unsigned long long", wanted=Filters, number=Py_ssize_t,
                   seq="unsigned long long", looked=Py_ssize_t, is_whole=bint,
                   before="unsigned long long")
    cpdef unsigned long long last_matching(
        self, bytes subject, unsigned long long upto_seq=*, bint is_near=*
    ) except? 0
    @cython.locals(start="unsigned long long", end="unsigned long long", wanted=Filters,
                   number=Py_ssize_t)
    cpdef unsigned long long count_pending(
        self, tuple filters, unsigned long long start_seq, bint last_per_subject=*,
        unsigned long long end_seq=*
    ) except? 0
    @cython.locals(low="unsigned long long", high="unsigned long long",
                   middle="unsigned long long", seq="unsigned long long",
                   found="unsigned long long")
    cpdef unsigned long long seq_at_time(self, long long time_ns) except? 0
    @cython.locals(end="unsigned long long", low="unsigned long long", high="unsigned long long")
    cpdef tuple around_time(self, long long time_ns)

    @cython.locals(position=Py_ssize_t)
    cdef Py_ssize_t _subject_number(self, unsigned long long seq) except -1
    @cython.locals(subjects=SubjectIndex)
    cdef SubjectState _state(self, Py_ssize_t number)
    cdef bint _is_wanted(self, Filters wanted, Py_ssize_t number) except -1
    @cython.locals(subjects=SubjectIndex, first="unsigned long long",
                   before="unsigned long long", position=Py_ssize_t, seq="unsigned long long",
                   passed="unsigned long long")
    cdef unsigned long long _next_of(
        self, Py_ssize_t number, unsigned long long start, unsigned long long end
    ) except? 0
    @cython.locals(seq="unsigned long long", before="unsigned long long")
    cdef unsigned long long _chain_back(
        self, Py_ssize_t number, unsigned long long start
    ) except? 0
    @cython.locals(seq="unsigned long long", before="unsigned long long")
    cdef unsigned long long _last_upto(
        self, Py_ssize_t number, unsigned long long upto
    ) except? 0
    @cython.locals(found="unsigned long long", number=Py_ssize_t)
    cdef unsigned long long _last_of_all(
        self, Filters wanted, unsigned long long upto
    ) except? 0
    @cython.locals(count="unsigned long long", number=Py_ssize_t)
    cdef unsigned long long _count_last(
        self, Filters wanted, unsigned long long start, unsigned long long end
    ) except? 0
    @cython.locals(count="unsigned long long", number=Py_ssize_t, noted=bytearray)
    cdef unsigned long long _count_all(self, Filters wanted) except? 0
    @cython.locals(count="unsigned long long", seq="unsigned long long",
                   rows="unsigned long long")
    cdef unsigned long long _count_rows(
        self, Filters wanted, unsigned long long start, unsigned long long end
    ) except? 0
    @cython.locals(subjects=SubjectIndex, count="unsigned long long",
                   seq="unsigned long long", after="unsigned long long")
    cdef unsigned long long _count_of(
        self, Py_ssize_t number, unsigned long long start, unsigned long long end
    ) except? 0

    cdef bint _view_at(
        self, MessageView view, Run run, unsigned long long offset, unsigned long long size,
        Py_ssize_t number
    ) except -1
