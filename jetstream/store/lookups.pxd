cimport cython

from midge.jetstream.store cimport layout
from midge.jetstream.store.block cimport Block
from midge.jetstream.store.filters cimport Filters, count_wanted
from midge.jetstream.store.indexes cimport Indexes
from midge.jetstream.store.interface cimport SubjectState
from midge.jetstream.store.message_index cimport MessageIndex
from midge.jetstream.store.subject_index cimport SubjectIndex
from midge.protocol cimport lines

cdef unsigned long long _CHAIN_MAX
cdef Py_ssize_t _ROWS_MAX, _ROWS_PER_SUBJECT, _NOTED_ROWS
cdef unsigned long long _ROWS_PER_WORK, _ROW_WORK
cdef int _WANTED
cdef char _PWC, _FWC

@cython.locals(start="unsigned long long", end="unsigned long long", wanted=Filters,
               number=Py_ssize_t, seq="unsigned long long", looked=Py_ssize_t,
               before="unsigned long long", passed="unsigned long long")
cpdef unsigned long long next_seq(
    Indexes store, tuple filters, unsigned long long start_seq, unsigned long long end_seq
) except? 0
@cython.locals(upto="unsigned long long", start="unsigned long long",
               seq="unsigned long long", after="unsigned long long", left=Py_ssize_t)
cpdef unsigned long long next_last_seq(
    Indexes store, tuple filters, unsigned long long start_seq, unsigned long long upto_seq
) except? 0
@cython.locals(found="unsigned long long", last="unsigned long long", number=Py_ssize_t)
cdef unsigned long long _first_last(
    Indexes store, Filters wanted, unsigned long long start, unsigned long long upto
) except? 0
@cython.locals(upto="unsigned long long", wanted=Filters, number=Py_ssize_t,
               seq="unsigned long long", looked=Py_ssize_t, is_whole=bint,
               before="unsigned long long")
cpdef unsigned long long last_matching(
    Indexes store, bytes subject, unsigned long long upto_seq, bint is_near
) except? 0
cdef bint _is_noted_last(Indexes store, Filters wanted) except -1
@cython.locals(subject=Py_ssize_t, end=Py_ssize_t)
cpdef tuple subjects_over_limit(
    Indexes store, unsigned long long limit, Py_ssize_t number, Py_ssize_t count
)
cdef Py_ssize_t _number_after(Indexes store, Py_ssize_t end) noexcept
@cython.locals(wanted=Filters, end=Py_ssize_t, one=Py_ssize_t)
cpdef tuple subject_names(Indexes store, bytes subject, Py_ssize_t number, Py_ssize_t count)
@cython.locals(end=Py_ssize_t)
cpdef Py_ssize_t note_subjects(Indexes store, tuple filters, Py_ssize_t number, Py_ssize_t count)
@cython.locals(wanted=Filters, end=Py_ssize_t, one=Py_ssize_t, seq="unsigned long long",
               before="unsigned long long", found=list)
cpdef tuple newest(
    Indexes store, tuple filters, Py_ssize_t number, Py_ssize_t count, unsigned long long upto_seq,
    Py_ssize_t most
)
@cython.locals(seq="unsigned long long", after="unsigned long long", found=list)
cpdef list newest_between(
    Indexes store, tuple filters, unsigned long long start_seq, unsigned long long end_seq,
    unsigned long long upto_seq, Py_ssize_t most
)
@cython.locals(start="unsigned long long", end="unsigned long long", wanted=Filters,
               number=Py_ssize_t)
cpdef unsigned long long count_pending(
    Indexes store, tuple filters, unsigned long long start_seq, bint last_per_subject,
    unsigned long long end_seq
) except? 0
@cython.locals(end="unsigned long long", low="unsigned long long", high="unsigned long long")
cpdef tuple around_time(Indexes store, long long time_ns)
cpdef unsigned long long deleted_count(Indexes store) except? 0
@cython.locals(row=Py_ssize_t)
cdef Py_ssize_t _subject_number(Indexes store, unsigned long long seq) except -1
@cython.locals(subjects=SubjectIndex)
cdef SubjectState _state(Indexes store, Py_ssize_t number)
cdef bint _is_wanted(Indexes store, Filters wanted, Py_ssize_t number) except -1
@cython.locals(subjects=SubjectIndex, first="unsigned long long",
               before="unsigned long long", row=Py_ssize_t, seq="unsigned long long",
               passed="unsigned long long")
cdef unsigned long long _next_of(
    Indexes store, Py_ssize_t number, unsigned long long start, unsigned long long end
) except? 0
@cython.locals(seq="unsigned long long", before="unsigned long long")
cdef unsigned long long _chain_back(
    Indexes store, Py_ssize_t number, unsigned long long start
) except? 0
@cython.locals(seq="unsigned long long", before="unsigned long long")
cdef unsigned long long _last_upto(
    Indexes store, Py_ssize_t number, unsigned long long upto
) except? 0
@cython.locals(found="unsigned long long", number=Py_ssize_t)
cdef unsigned long long _last_of_all(
    Indexes store, Filters wanted, unsigned long long upto
) except? 0
@cython.locals(count="unsigned long long", number=Py_ssize_t)
cdef unsigned long long _count_last(
    Indexes store, Filters wanted, unsigned long long start, unsigned long long end
) except? 0
@cython.locals(before="unsigned long long")
cdef void _charge_all(Indexes store, Filters wanted) except *
@cython.locals(count="unsigned long long", number=Py_ssize_t, noted=bytearray)
cdef unsigned long long _count_all(Indexes store, Filters wanted) except? 0
@cython.locals(count="unsigned long long", seq="unsigned long long",
               rows="unsigned long long")
cdef unsigned long long _count_rows(
    Indexes store, Filters wanted, unsigned long long start, unsigned long long end
) except? 0
@cython.locals(subjects=SubjectIndex, count="unsigned long long",
               seq="unsigned long long", after="unsigned long long")
cdef unsigned long long _count_of(
    Indexes store, Py_ssize_t number, unsigned long long start, unsigned long long end
) except? 0
@cython.locals(wanted=Filters, found=list, number=Py_ssize_t)
cpdef object subjects(Indexes store, bytes subject)
@cython.locals(start="unsigned long long")
cpdef tuple gap(Indexes store, unsigned long long seq)
@cython.locals(number=Py_ssize_t, name=bytes)
cpdef bytes unsendable_subject(Indexes store)
@cython.locals(number="unsigned long long", i=Py_ssize_t, block=Block, place=Py_ssize_t)
cpdef unsigned long long next_missing(
    MessageIndex index, unsigned long long seq, unsigned long long last
) except? 0
