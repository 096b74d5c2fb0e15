cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.interface cimport MessageView
from midge.protocol cimport lines

cdef Py_ssize_t _SMALLEST_TABLE, _WASTE_MIN, _MOVED_AT_ONCE
cdef unsigned long long _NONE


@cython.final
cdef class Pattern:
    cdef readonly bytes subject
    cdef readonly bint is_literal, is_all
    cdef Py_ssize_t _fixed, _end
    cdef readonly Py_ssize_t prefix_size
    cdef readonly bytearray text

    @cython.locals(length=Py_ssize_t, whole=Py_ssize_t)
    cpdef bint is_match(self, bytearray data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(p=Py_ssize_t, length=Py_ssize_t, token_ends=bint)
    cdef bint _is_tail_match(
        self, const unsigned char *data, Py_ssize_t i, Py_ssize_t end, const unsigned char *text
    ) noexcept


@cython.final
cdef class SubjectIndex:
    cdef bytearray _common, _names, _rows, _table, _larger
    cdef Py_ssize_t _moved
    cdef unsigned long long _seed, _free
    cdef Py_ssize_t _used, _waste
    cdef bytearray _vacated
    cdef readonly Py_ssize_t subject_count
    cdef list _watched
    cdef readonly unsigned long long narrowed, before
    cdef readonly bint holds_unsendable
    cdef public bytearray known

    @cython.locals(notes=bytearray)
    cpdef void clear(self) except *
    cpdef void watch(self, bytearray notes) except *
    cpdef void unwatch_all(self) except *
    @cython.locals(hashed="unsigned int", mask="size_t", slot="size_t", entry="unsigned int",
                   row=Py_ssize_t, table=bytearray, rows=bytearray)
    cpdef Py_ssize_t find(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except? -1
    @cython.locals(subject=Py_ssize_t, row=Py_ssize_t, position=Py_ssize_t,
                   hashed="unsigned int")
    cpdef Py_ssize_t ensure(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) except -1
    cdef void _unmark(self, Py_ssize_t subject) noexcept
    @cython.locals(subject=Py_ssize_t, rows=bytearray, row=Py_ssize_t, count="unsigned long long")
    cpdef Py_ssize_t append(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end, unsigned long long seq
    ) except -1
    @cython.locals(rows=bytearray, row=Py_ssize_t, before="unsigned long long")
    cpdef unsigned long long append_known(self, Py_ssize_t subject, unsigned long long seq) noexcept
    @cython.locals(row=Py_ssize_t, count="unsigned long long")
    cpdef void shorten(self, Py_ssize_t subject, unsigned long long first) except *
    @cython.locals(row=Py_ssize_t, end=Py_ssize_t)
    cpdef void vacate(self, Py_ssize_t subject) except *
    @cython.locals(subject=Py_ssize_t, left=Py_ssize_t, is_free=bint)
    cpdef bint release_vacated(self, Py_ssize_t limit) except -1
    @cython.locals(row=Py_ssize_t)
    cpdef void release(self, Py_ssize_t subject) except *
    cpdef Py_ssize_t limit(self) noexcept
    @cython.locals(start=Py_ssize_t, length=Py_ssize_t)
    cpdef bytes name(self, Py_ssize_t subject)
    cpdef void show(self, Py_ssize_t subject, MessageView view) noexcept
    cpdef unsigned long long count(self, Py_ssize_t subject) noexcept
    cpdef void set_count(self, Py_ssize_t subject, unsigned long long count) noexcept
    cpdef unsigned long long first(self, Py_ssize_t subject) noexcept
    cpdef void set_first(self, Py_ssize_t subject, unsigned long long seq) noexcept
    cpdef unsigned long long last(self, Py_ssize_t subject) noexcept
    cpdef void set_last(self, Py_ssize_t subject, unsigned long long seq) noexcept
    @cython.locals(row=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
    cpdef bint is_match(self, Py_ssize_t subject, Pattern pattern) except -1
    @cython.locals(size=Py_ssize_t)
    cpdef bint are_all_below(self, Pattern pattern) except -1
    @cython.locals(names=bytearray, rows=bytearray, slots=Py_ssize_t, subject=Py_ssize_t,
                   row=Py_ssize_t, start="unsigned long long", end="unsigned long long",
                   hashed="unsigned int")
    cpdef void restore(self, object source) except *
    @cython.locals(size=Py_ssize_t, same=Py_ssize_t)
    cdef void _narrow(self, Py_ssize_t start, Py_ssize_t end) except *
    @cython.locals(subject=Py_ssize_t, compared=Py_ssize_t)
    cpdef Py_ssize_t note(
        self, Pattern pattern, bytearray notes, unsigned char yes, unsigned char no,
        Py_ssize_t start, Py_ssize_t end
    ) except -1
    cpdef Py_ssize_t size(self) noexcept
    @cython.locals(subject=Py_ssize_t, notes=bytearray)
    cdef Py_ssize_t _take_row(self) except -1
    @cython.locals(mask="size_t", slot="size_t")
    cdef void _enter(self, bytearray table, Py_ssize_t subject, unsigned int hashed) noexcept
    @cython.locals(mask=Py_ssize_t, hole=Py_ssize_t, slot=Py_ssize_t, entry="unsigned int",
                   wanted=Py_ssize_t)
    cdef void _leave(self, bytearray table, Py_ssize_t subject) noexcept
    @cython.locals(taken=Py_ssize_t, slots=Py_ssize_t)
    cdef void _grow(self) except *
    @cython.locals(end=Py_ssize_t, subject=Py_ssize_t, hashed="unsigned int")
    cdef void _move(self, Py_ssize_t count) except *
    @cython.locals(names=bytearray, position=Py_ssize_t, subject=Py_ssize_t, row=Py_ssize_t,
                   start="unsigned long long", end="unsigned long long")
    cdef void _squeeze(self) except *
