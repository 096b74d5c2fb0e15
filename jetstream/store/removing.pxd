cimport cython

from midge.jetstream.store cimport layout, lookups, numbers
from midge.jetstream.store.block cimport Block
from midge.jetstream.store.filters cimport Filters
from midge.jetstream.store.indexes cimport Indexes, Run
from midge.jetstream.store.message_index cimport MessageIndex
from midge.jetstream.store.subject_index cimport SubjectIndex

cdef unsigned long long _FAR, _NO_LIMIT
cdef Py_ssize_t _SINGLY, _TURN_SUBJECTS
cdef unsigned long long _CHAIN_SHARE, _ROW_WORK, _DROP_WORK


@cython.final
cdef class Sweep:
    cdef readonly unsigned long long count, size, total_count, total_size
    cdef MessageIndex _index
    cdef SubjectIndex _subjects
    cdef Filters _wanted
    cdef unsigned long long _upto, _least_count, _least_size
    cdef bint _is_open

    @cython.locals(last="unsigned long long", i=Py_ssize_t, block=Block,
                   first="unsigned long long", low=Py_ssize_t, high=Py_ssize_t)
    cpdef void take(self, unsigned long long start, unsigned long long end) except *
    cdef bint _is_done(self) noexcept
    @cython.locals(before="unsigned long long", i=Py_ssize_t, rows=bytearray, number=Py_ssize_t)
    cdef void _take_rows(self, Block block, Py_ssize_t low, Py_ssize_t high) except *
    @cython.locals(after="unsigned long long", seq="unsigned long long")
    cdef void _shorten(self, Block block, Py_ssize_t i, Py_ssize_t number) except *


@cython.locals(count=Py_ssize_t, most_messages="unsigned long long",
               most_bytes="unsigned long long", surplus="unsigned long long",
               size="unsigned long long")
cpdef Py_ssize_t enforce(Indexes store, long long max_messages, long long max_bytes) except -1
@cython.locals(number=Py_ssize_t, count=Py_ssize_t, is_last=bint)
cpdef Py_ssize_t trim_subject(Indexes store, bytes subject, unsigned long long keep) except -1
@cython.locals(upto="unsigned long long", count=Py_ssize_t)
cpdef Py_ssize_t purge(
    Indexes store, bytes subject, unsigned long long upto_seq, unsigned long long keep
) except -1
@cython.locals(at_head=bint)
cdef void _drop_and_note(Indexes store, unsigned long long seq) except *
@cython.locals(before="unsigned long long")
cdef Py_ssize_t _purge_head(
    Indexes store, unsigned long long upto, unsigned long long keep
) except -1
@cython.locals(i=Py_ssize_t, block=Block, place=Py_ssize_t)
cpdef unsigned long long seq_number(MessageIndex index, unsigned long long count) except? 0
@cython.locals(matching="unsigned long long", last="unsigned long long", count=Py_ssize_t)
cdef Py_ssize_t _purge_but(
    Indexes store, bytes subject, unsigned long long upto, unsigned long long keep
) except -1
@cython.locals(number=Py_ssize_t, gone="unsigned long long", count=Py_ssize_t,
               first="unsigned long long")
cdef Py_ssize_t _purge_chain_but(
    Indexes store, bytes subject, unsigned long long upto, unsigned long long keep
) except -1
@cython.locals(seq="unsigned long long")
cdef unsigned long long _stays_from(
    Indexes store, Py_ssize_t number, unsigned long long keep
) except 0
@cython.locals(wanted=Filters, index=MessageIndex, seq="unsigned long long",
               position=Py_ssize_t)
cdef unsigned long long _nth_matching(
    Indexes store, tuple filters, unsigned long long count
) except 0
@cython.locals(filters=Filters, number=Py_ssize_t)
cpdef Py_ssize_t remove_matching(Indexes store, bytes subject, unsigned long long upto) except -1
@cython.locals(count=Py_ssize_t, left="unsigned long long", seq="unsigned long long")
cdef Py_ssize_t _remove_chain(Indexes store, Py_ssize_t number, unsigned long long upto) except -1
@cython.locals(wanted=Filters, sweep=Sweep, runs=list, sizes=list, i=Py_ssize_t, run=Run,
               following=Run, end="unsigned long long")
cdef Py_ssize_t _sweep(
    Indexes store, tuple filters, unsigned long long upto, unsigned long long least_count,
    unsigned long long least_size
) except -1
@cython.locals(end="unsigned long long", count="unsigned long long",
               size="unsigned long long", seq="unsigned long long")
cdef void _keep_before(
    Indexes store, tuple filters, unsigned long long upto, unsigned long long least_count,
    unsigned long long least_size
) except *
@cython.locals(first="unsigned long long")
cdef void _swept(Indexes store, Sweep sweep) except *
cpdef bint release_subjects(Indexes store) except -1
