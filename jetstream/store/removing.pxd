# C types for removing.py.

cimport cython

from midge.jetstream.store.counting cimport seq_number
from midge.jetstream.store.filters cimport Filters
from midge.jetstream.store.indexed cimport IndexedStore, Run
from midge.jetstream.store.message_index cimport MessageIndex
from midge.jetstream.store.sweep cimport Sweep

cdef unsigned long long _NO_LIMIT
cdef Py_ssize_t _SINGLY, _TURN_SUBJECTS
cdef unsigned long long _CHAIN_SHARE, _ROW_WORK, _DROP_WORK


cdef class RemovingStore(IndexedStore):
    cdef object _turns
    cdef bint _is_releasing

    @cython.locals(count=Py_ssize_t, most_messages="unsigned long long",
                   most_bytes="unsigned long long", surplus="unsigned long long",
                   size="unsigned long long")
    cpdef Py_ssize_t enforce(self, long long max_messages, long long max_bytes) except -1
    @cython.locals(number=Py_ssize_t, count=Py_ssize_t, is_last=bint)
    cpdef Py_ssize_t trim_subject(self, bytes subject, unsigned long long keep) except -1
    @cython.locals(upto="unsigned long long", count=Py_ssize_t)
    cpdef Py_ssize_t purge(
        self, bytes subject=*, unsigned long long upto_seq=*, unsigned long long keep=*
    ) except -1
    @cython.locals(count=Py_ssize_t, seq="unsigned long long", unsure_seq="unsigned long long")
    cpdef Py_ssize_t expire(
        self, long long before_ns, Py_ssize_t limit, object waiter=*
    ) except -1
    cpdef bint release_subjects(self) except -1
    @cython.locals(at_head=bint)
    cdef void _drop_and_note(self, unsigned long long seq) except *
    @cython.locals(before="unsigned long long")
    cdef Py_ssize_t _purge_head(
        self, unsigned long long upto, unsigned long long keep
    ) except -1
    @cython.locals(matching="unsigned long long", last="unsigned long long", count=Py_ssize_t)
    cdef Py_ssize_t _purge_but(
        self, bytes subject, unsigned long long upto, unsigned long long keep
    ) except -1
    @cython.locals(number=Py_ssize_t, gone="unsigned long long", count=Py_ssize_t,
                   first="unsigned long long")
    cdef Py_ssize_t _purge_chain_but(
        self, bytes subject, unsigned long long upto, unsigned long long keep
    ) except -1
    @cython.locals(seq="unsigned long long")
    cdef unsigned long long _stays_from(
        self, Py_ssize_t number, unsigned long long keep
    ) except 0
    @cython.locals(wanted=Filters, index=MessageIndex, seq="unsigned long long",
                   position=Py_ssize_t)
    cdef unsigned long long _nth_matching(
        self, tuple filters, unsigned long long count
    ) except 0
    @cython.locals(filters=Filters, number=Py_ssize_t)
    cdef Py_ssize_t _remove_matching(self, bytes subject, unsigned long long upto) except -1
    @cython.locals(count=Py_ssize_t, left="unsigned long long", seq="unsigned long long")
    cdef Py_ssize_t _remove_chain(self, Py_ssize_t number, unsigned long long upto) except -1
    @cython.locals(wanted=Filters, sweep=Sweep, runs=list, sizes=list, i=Py_ssize_t, run=Run,
                   following=Run, end="unsigned long long")
    cdef Py_ssize_t _sweep(
        self, tuple filters, unsigned long long upto, unsigned long long least_count,
        unsigned long long least_size
    ) except -1
    @cython.locals(end="unsigned long long", count="unsigned long long",
                   size="unsigned long long", seq="unsigned long long")
    cdef void _keep_before(
        self, tuple filters, unsigned long long upto, unsigned long long least_count,
        unsigned long long least_size
    ) except *
    @cython.locals(first="unsigned long long")
    cdef void _swept(self, Sweep sweep) except *

    cdef void _purged(self, bytes subject, unsigned long long upto) except *
