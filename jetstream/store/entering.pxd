cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.block cimport Block
from midge.jetstream.store.message_index cimport MessageIndex
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
    cpdef Py_ssize_t resolve(self, PublishedLines lines, unsigned long long epoch) except -1
    @cython.locals(subjects=SubjectIndex, rows=bytearray, i=Py_ssize_t, row=Py_ssize_t,
                   number=Py_ssize_t, before="unsigned long long")
    cpdef void append(
        self, PublishedLines lines, Py_ssize_t first, Py_ssize_t count, unsigned long long seq
    ) except *


@cython.locals(total="unsigned long long", place=Py_ssize_t, stretch=Py_ssize_t, block=Block)
cpdef unsigned long long enter_lines(
    MessageIndex index, PublishedLines lines, Py_ssize_t first, Py_ssize_t count,
    unsigned long long seq, long long time_ns, Py_ssize_t fixed_bytes
) except? 0

@cython.locals(position=Py_ssize_t, rows=bytearray, found=bytearray, i=Py_ssize_t, line=Py_ssize_t,
               size=Py_ssize_t, total="unsigned long long")
cdef unsigned long long _write_rows(
    Block block, Py_ssize_t place, PublishedLines lines, Py_ssize_t first, Py_ssize_t count,
    Py_ssize_t fixed_bytes
) except? 0

@cython.locals(found=bytearray, before=Block, holder=Block, i=Py_ssize_t, line=Py_ssize_t,
               distance="unsigned long long", number="unsigned long long", place=Py_ssize_t,
               row=Py_ssize_t)
cdef void _link(
    MessageIndex index, Block block, PublishedLines lines, Py_ssize_t first, Py_ssize_t count,
    unsigned long long seq
) except *
