cimport cython

from midge.jetstream.store cimport layout, numbers

cdef int _UNWANTED
cdef unsigned int _WORD
cdef Py_ssize_t _FEWEST
cdef Py_ssize_t _WIDER, _BEFORE_MASK


@cython.final
cdef class Block:
    cdef readonly unsigned long long number
    cdef public Py_ssize_t timed_place
    cdef public long long time_ns
    cdef public Py_ssize_t live
    cdef public bytearray rows, keys

    cpdef Py_ssize_t row(self, Py_ssize_t place) except? -1
    @cython.locals(keys=bytearray, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cpdef Py_ssize_t bisect(self, Py_ssize_t place) except? -1
    @cython.locals(rows=bytearray, position=Py_ssize_t)
    cpdef bint append(
        self, Py_ssize_t place, unsigned long long offset, unsigned long long size,
        Py_ssize_t subject, unsigned int before
    ) except -1
    @cython.locals(rows=bytearray, i=Py_ssize_t)
    cdef Py_ssize_t begin_rows(self, Py_ssize_t place, Py_ssize_t count) except -1
    cpdef void pack(self) except *
    @cython.locals(rows=bytearray, most=Py_ssize_t, field=Py_ssize_t, entry=Py_ssize_t,
                   bits=Py_ssize_t, end=Py_ssize_t, is_kept=bint)
    cpdef bint is_sound(self) except -1
    @cython.locals(position=Py_ssize_t)
    cpdef void discard(self, Py_ssize_t i) except *
    @cython.locals(rows=bytearray, keys=bytearray, plain=bytearray, kept=Py_ssize_t, i=Py_ssize_t,
                   start=Py_ssize_t)
    cdef void _thin_out(self) except *
    cpdef Py_ssize_t row_at_or_after(self, Py_ssize_t place) except? -1
    cpdef Py_ssize_t row_place(self, Py_ssize_t i) noexcept
    cpdef void clear_up(self, Py_ssize_t count) except *
    cpdef unsigned long long offset(self, Py_ssize_t i) noexcept
    cpdef unsigned long long size(self, Py_ssize_t i) noexcept
    cpdef Py_ssize_t subject(self, Py_ssize_t i) noexcept
    cpdef void set_offset(self, Py_ssize_t i, unsigned int offset) except *
    @cython.locals(plain=bytearray)
    cpdef bint set(self, Py_ssize_t i, Py_ssize_t field, unsigned int value) except -1
    @cython.locals(i=Py_ssize_t)
    cpdef Py_ssize_t next_place(self, Py_ssize_t place) except? -1
    @cython.locals(i=Py_ssize_t)
    cpdef Py_ssize_t previous_place(self, Py_ssize_t place) except? -1
    @cython.locals(i=Py_ssize_t, rows=bytearray)
    cpdef Py_ssize_t next_of(self, Py_ssize_t subject, Py_ssize_t place) except? -1
    @cython.locals(i=Py_ssize_t, rows=bytearray, subject=Py_ssize_t)
    cpdef Py_ssize_t next_wanted(self, bytearray wanted, Py_ssize_t place) except? -1
    @cython.locals(count=Py_ssize_t, i=Py_ssize_t)
    cpdef Py_ssize_t count_from(self, Py_ssize_t place) except? -1


@cython.locals(plain=bytearray, count=Py_ssize_t, row_bits=Py_ssize_t, field=Py_ssize_t,
               value="unsigned int", step="unsigned int", mask="unsigned int", start=Py_ssize_t,
               end=Py_ssize_t, row=Py_ssize_t, _=Py_ssize_t, deviation="unsigned int",
               size="unsigned int")
cdef bytearray _plain(bytearray rows)
@cython.locals(packed=bytearray, bits=Py_ssize_t, field=Py_ssize_t, wanted=Py_ssize_t,
               least=Py_ssize_t, base="unsigned int", step="unsigned int")
cdef bytearray _packed(bytearray plain, bytearray before, Py_ssize_t widened)
@cython.locals(count=Py_ssize_t, first=Py_ssize_t, last=Py_ssize_t, apart=Py_ssize_t,
               start="long long", grown="long long", step="long long", number="long long",
               stride="long long", low="long long", high="long long", lowest="long long",
               highest="long long", least="long long", most="long long", before="unsigned int",
               after="unsigned int", i=Py_ssize_t, size="long long", value="long long",
               head=bytearray)
cdef bytearray _head_for(bytearray rows)
@cython.locals(count=Py_ssize_t, row_bits=Py_ssize_t, field=Py_ssize_t, value="unsigned int",
               step="unsigned int", bits=Py_ssize_t, end=Py_ssize_t, row=Py_ssize_t,
               _=Py_ssize_t, deviation="unsigned int")
cdef void _write(bytearray plain, bytearray packed) except *
@cython.locals(size_bits=Py_ssize_t, subject_bits=Py_ssize_t, before_bits=Py_ssize_t,
               offset_bits=Py_ssize_t, last_bits=Py_ssize_t, offset="unsigned int",
               step="unsigned int", least="unsigned int", subject="unsigned int",
               stride="unsigned int", end=Py_ssize_t, row=Py_ssize_t, _=Py_ssize_t,
               size="unsigned int", number="unsigned int", place="unsigned int",
               word="unsigned long long")
cdef bint _write_rows(
    bytearray plain, bytearray packed, Py_ssize_t count, Py_ssize_t row_bits
) noexcept
cdef unsigned int _field(bytearray plain, Py_ssize_t i, Py_ssize_t field) noexcept
cdef Py_ssize_t _bits(unsigned long long value) noexcept
