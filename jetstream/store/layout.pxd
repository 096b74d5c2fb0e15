# Members of an enum, which C computes with; layout.py has the meanings and contracts.

cimport cython

from cpython.bytearray cimport PyByteArray_GET_SIZE

from midge.jetstream.store cimport numbers


cdef enum:
    LINE = 28
    LINE_SUBJECT = 0
    LINE_SUBJECT_LENGTH = 4
    LINE_PAYLOAD = 8
    LINE_PAYLOAD_LENGTH = 12
    LINE_NUMBER = 16
    LINE_PLACE = 20
    LINE_DISTANCE = 24

    ROW = 20
    ROW_OFFSET = 0
    ROW_SIZE = 4
    ROW_SUBJECT = 8
    ROW_BEFORE = 12
    ROW_AFTER = 16

    HEAD = 88
    HEAD_STEP = 4
    HEAD_MASK = 8
    HEAD_START = 12
    HEAD_END = 14
    HEAD_BITS = 80

    MOST_ADDED = 57

    SUBJECT = 40
    SUBJECT_NAME = 0
    SUBJECT_COUNT = 8
    SUBJECT_FIRST = 16
    SUBJECT_LAST = 24
    SUBJECT_HASH = 32
    SUBJECT_LENGTH = 36

    BITS = 10
    SPAN = 1024
    MASK = 1023


cdef inline bytearray plain_rows():
    cdef bytearray rows = bytearray(HEAD)
    cdef Py_ssize_t field
    for field in range(0, ROW, 4):
        describe(rows, field, 0, 0, 32, field * 8)
    numbers.set_u32_at(rows, HEAD_BITS, ROW * 8)
    return rows


cdef inline void describe(
    bytearray rows, Py_ssize_t field, unsigned int base, unsigned int step, Py_ssize_t bits,
    Py_ssize_t start
) noexcept:
    cdef Py_ssize_t entry = field * 4
    numbers.set_u32_at(rows, entry, base)
    numbers.set_u32_at(rows, entry + HEAD_STEP, step)
    numbers.set_u32_at(rows, entry + HEAD_MASK, <unsigned int>((1ULL << bits) - 1))
    numbers.set_u16(rows, (entry + HEAD_START) >> 1, <unsigned int>start)
    numbers.set_u16(rows, (entry + HEAD_END) >> 1, <unsigned int>(start + bits + 7))


cdef inline bint is_plain(bytearray rows) noexcept:
    return numbers.u32_at(rows, HEAD_BITS) == ROW * 8


cdef inline Py_ssize_t row_count(bytearray rows) noexcept:
    return (PyByteArray_GET_SIZE(rows) - HEAD) * 8 // numbers.u32_at(rows, HEAD_BITS)


cdef inline bint has_row(bytearray rows, Py_ssize_t i) noexcept:
    return (i + 1) * numbers.u32_at(rows, HEAD_BITS) <= (PyByteArray_GET_SIZE(rows) - HEAD) * 8


cdef inline unsigned int bits_at(bytearray rows, Py_ssize_t start, Py_ssize_t end) noexcept:
    return <unsigned int>(
        numbers.u64_at(rows, HEAD - 8 + (end >> 3)) >> (start + 64 - (end & ~7) & 63)
    )


cdef inline void add_bits(
    bytearray rows, Py_ssize_t bits, Py_ssize_t end, unsigned long long value
) noexcept:
    cdef Py_ssize_t position = HEAD - 8 + (end >> 3)
    value <<= 57 - bits + (end & 7)
    numbers.set_u64_at(rows, position, numbers.u64_at(rows, position) | value)


cdef inline unsigned int deviation(bytearray rows, Py_ssize_t i, Py_ssize_t field) noexcept:
    cdef Py_ssize_t row = i * numbers.u32_at(rows, HEAD_BITS)
    cdef Py_ssize_t start = row + numbers.u16(rows, (field * 4 + HEAD_START) >> 1)
    cdef Py_ssize_t end = row + numbers.u16(rows, (field * 4 + HEAD_END) >> 1)
    return bits_at(rows, start, end) & numbers.u32_at(rows, field * 4 + HEAD_MASK)


cdef inline void set_deviation(
    bytearray rows, Py_ssize_t i, Py_ssize_t field, unsigned int value
) noexcept:
    cdef Py_ssize_t row = i * numbers.u32_at(rows, HEAD_BITS)
    cdef Py_ssize_t start = row + numbers.u16(rows, (field * 4 + HEAD_START) >> 1)
    cdef Py_ssize_t end = row + numbers.u16(rows, (field * 4 + HEAD_END) >> 1)
    cdef Py_ssize_t position = HEAD - 8 + (end >> 3)
    cdef int shift = start + 64 - (end & ~7) & 63
    cdef unsigned long long mask = numbers.u32_at(rows, field * 4 + HEAD_MASK)
    cdef unsigned long long word = numbers.u64_at(rows, position) & ~(mask << shift)
    numbers.set_u64_at(rows, position, word | (value & mask) << shift)


cdef inline bint is_live(bytearray rows, Py_ssize_t i) noexcept:
    return deviation(rows, i, ROW_SIZE) != 0


cdef inline unsigned int get(bytearray rows, Py_ssize_t i, Py_ssize_t field) noexcept:
    return numbers.plus(_predicted(rows, i, field), deviation(rows, i, field))


cdef inline bint try_put(
    bytearray rows, Py_ssize_t i, Py_ssize_t field, unsigned int value
) noexcept:
    value = numbers.minus(value, _predicted(rows, i, field))
    if value > numbers.u32_at(rows, field * 4 + HEAD_MASK):
        return False
    set_deviation(rows, i, field, value)
    return True


@cython.overflowcheck(False)
cdef inline unsigned int _predicted(bytearray rows, Py_ssize_t i, Py_ssize_t field) noexcept:
    return numbers.u32_at(rows, field * 4) + (
        numbers.u32_at(rows, field * 4 + HEAD_STEP) * <unsigned int>i
    )
