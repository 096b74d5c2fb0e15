cimport cython

from midge.jetstream.store cimport layout, numbers
from midge.jetstream.store.block cimport Block

cdef unsigned long long _FAR
cdef Py_ssize_t _HEAD


@cython.final
cdef class MessageIndex:
    cdef list _blocks
    cdef dict _far
    cdef readonly Block block

    cpdef void clear(self) except *
    @cython.locals(number="unsigned long long", i=Py_ssize_t, block=Block)
    cpdef Py_ssize_t locate(self, unsigned long long seq) except? -1
    @cython.locals(block=Block, distance="unsigned long long", number="unsigned long long",
                   is_far=bint, place=Py_ssize_t, row=Py_ssize_t)
    cpdef bint enter(
        self, unsigned long long seq, long long time_ns, unsigned long long offset,
        unsigned long long size, Py_ssize_t subject, unsigned long long before
    ) except -1
    @cython.locals(number="unsigned long long", block=Block)
    cpdef Block tail_for(self, unsigned long long seq, long long time_ns)
    @cython.locals(block=Block)
    cpdef void discard(self, unsigned long long seq, Py_ssize_t row) except *
    @cython.locals(value="unsigned long long")
    cdef unsigned long long distance(
        self, unsigned long long seq, Py_ssize_t row, Py_ssize_t field
    ) except? 0
    @cython.locals(i=Py_ssize_t)
    cdef void _set_distance(
        self, unsigned long long seq, Py_ssize_t field, unsigned long long value
    ) except *
    @cython.locals(place=Py_ssize_t, i=Py_ssize_t, block=Block)
    cpdef unsigned long long next_live(self, unsigned long long seq) except? 0
    @cython.locals(number="unsigned long long", place=Py_ssize_t, i=Py_ssize_t, block=Block)
    cpdef unsigned long long previous_live(self, unsigned long long seq) except? 0
    @cython.locals(number="unsigned long long", place=Py_ssize_t, i=Py_ssize_t, block=Block,
                   found="unsigned long long")
    cpdef unsigned long long next_of(
        self, Py_ssize_t subject, unsigned long long seq, unsigned long long end
    ) except? 0
    @cython.locals(number="unsigned long long", place=Py_ssize_t, i=Py_ssize_t, block=Block,
                   found="unsigned long long")
    cpdef unsigned long long next_wanted(
        self, bytearray wanted, unsigned long long seq, unsigned long long end
    ) except? 0
    @cython.locals(number="unsigned long long", count="unsigned long long", i=Py_ssize_t,
                   place=Py_ssize_t, block=Block)
    cpdef unsigned long long count_from(self, unsigned long long seq) except? 0
    @cython.locals(place=Py_ssize_t)
    cpdef bint knows_time(self, unsigned long long seq) except -1
    cpdef void note_time(self, unsigned long long seq, long long time_ns) except *
    cpdef Py_ssize_t block_count(self) except -1
    cpdef Block block_number(self, Py_ssize_t i)
    cpdef Py_ssize_t block_at_or_after(self, unsigned long long seq) except -1
    @cython.locals(number="unsigned long long", i=Py_ssize_t, block=Block)
    cpdef unsigned long long seq_after(self, unsigned long long seq, Py_ssize_t count) except? 0
    @cython.locals(block=Block)
    cpdef void drop_empty(self) except *
    @cython.locals(block=Block, heads=bytearray, i=Py_ssize_t)
    cpdef void save(self, object out) except *
    @cython.locals(block=Block, total=Py_ssize_t, heads=bytearray, at=Py_ssize_t)
    cpdef Py_ssize_t restore(self, object source) except -1
    cpdef unsigned long long before(self, unsigned long long seq) except? 0
    cpdef unsigned long long after(self, unsigned long long seq) except? 0
    cpdef void set_before(self, unsigned long long seq, unsigned long long distance) except *
    cpdef void set_after(self, unsigned long long seq, unsigned long long distance) except *
    @cython.locals(i=Py_ssize_t, block=Block)
    cpdef unsigned long long at_time(self, long long time_ns) except? 0
    @cython.locals(i=Py_ssize_t, block=Block)
    cpdef unsigned long long until_time(self, long long time_ns) except? 0
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, block=Block)
    cdef Py_ssize_t _bisect_time(self, long long time_ns) except -1
    @cython.locals(block=Block, total=Py_ssize_t)
    cpdef Py_ssize_t size(self) except -1
    @cython.locals(count=Py_ssize_t, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t,
                   block=Block)
    cdef Py_ssize_t _bisect(self, unsigned long long number) except -1
