# C types for known_subjects.py.

cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.published cimport PublishedLines
from midge.jetstream.store.subject_index cimport SubjectIndex


@cython.final
cdef class KnownSubjects:
    cdef readonly SubjectIndex subjects
    cdef readonly unsigned long long epoch
    cdef bytearray _marks

    cpdef unsigned long long begin_epoch(self) noexcept
    @cython.locals(number=Py_ssize_t)
    cpdef void mark(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end,
        unsigned long long epoch
    ) except *
    @cython.locals(subjects=SubjectIndex, marks=bytearray, rows=bytearray, limit=Py_ssize_t,
                   base=Py_ssize_t, row=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t,
                   length=Py_ssize_t, number=Py_ssize_t)
    cpdef Py_ssize_t resolve(
        self, PublishedLines lines, unsigned long long epoch
    ) except -1
    @cython.locals(subjects=SubjectIndex, rows=bytearray, i=Py_ssize_t, row=Py_ssize_t,
                   number=Py_ssize_t, before="unsigned long long")
    cpdef void append(
        self, PublishedLines lines, Py_ssize_t first, Py_ssize_t count, unsigned long long seq
    ) except *
