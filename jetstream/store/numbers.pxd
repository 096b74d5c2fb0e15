# Numbers in bytearrays as C loads and stores; numbers.py has the contracts.

cimport cython

from cpython.bytearray cimport PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcmp, memcpy, memmove, memset


# All supported machines are little-endian, so that a number is in memory as it is on the disk.
cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "midge needs a little-endian machine"
    #endif

    /* The two halves of a product of 128 bits, which machines of 32 bits compute in four parts. */
    static inline unsigned long long midge_fold(unsigned long long a, unsigned long long b) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128)a * b;
        return (unsigned long long)product ^ (unsigned long long)(product >> 64);
    #else
        unsigned long long low = 0xFFFFFFFF;
        unsigned long long first = (a & low) * (b & low), last = (a >> 32) * (b >> 32);
        unsigned long long one = (a & low) * (b >> 32), other = (a >> 32) * (b & low);
        unsigned long long middle = (first >> 32) + (one & low) + (other & low);
        return (middle << 32 | (first & low))
            ^ (last + (one >> 32) + (other >> 32) + (middle >> 32));
    #endif
    }

    /* Nearly all subjects and small payloads have 8 to 32 bytes. Four words that may overlap are
     * that many, so that no branch depends on the length, which changes from message to message. */
    static inline void midge_copy(char *target, const unsigned char *source, Py_ssize_t length) {
        if (length >= 8 && length <= 32) {
            Py_ssize_t second = length < 16 ? length - 8 : 8;
            Py_ssize_t third = length > 16 ? length - 16 : 0;
            unsigned long long words[4];
            memcpy(words, source, 8);
            memcpy(words + 1, source + second, 8);
            memcpy(words + 2, source + third, 8);
            memcpy(words + 3, source + length - 8, 8);
            memcpy(target, words, 8);
            memcpy(target + second, words + 1, 8);
            memcpy(target + third, words + 2, 8);
            memcpy(target + length - 8, words + 3, 8);
        } else {
            memcpy(target, source, length);
        }
    }

    /* A copy of a fixed size is a load and a store, one of any other size a call. */
    static inline void midge_copy_short(
        char *target, Py_ssize_t room, const unsigned char *source, Py_ssize_t left,
        Py_ssize_t length) {
        if (length <= 16 && room >= 16 && left >= 16) memcpy(target, source, 16);
        else memcpy(target, source, length);
    }

    /* Sixteen bytes a step, once so many lie between the two and as long as there is room. */
    static inline void midge_repeat(
        char *target, Py_ssize_t offset, Py_ssize_t length, Py_ssize_t room) {
        const char *source = target - offset;
        char *end = target + length;
        while (offset < 16 && end - target > offset) {
            for (Py_ssize_t i = 0; i < offset; i++) target[i] = source[i];
            target += offset;
            offset *= 2;
        }
        room -= length;
        while (target < end && room + (end - target) >= 16) {
            char words[16];
            memcpy(words, source, 16);
            memcpy(target, words, 16);
            target += 16, source += 16;
        }
        while (target < end) *target++ = *source++;
    }

    /* Eight bytes a step; the lowest bit that differs is in the first byte that does. */
    static inline Py_ssize_t midge_common(
        const char *one, const char *other, const char *end) {
        const char *start = other;
        for (; end - other >= 8; one += 8, other += 8) {
            unsigned long long a, b;
            memcpy(&a, one, 8);
            memcpy(&b, other, 8);
            if (a != b) return other - start + (__builtin_ctzll(a ^ b) >> 3);
        }
        while (other < end && *one == *other) one++, other++;
        return other - start;
    }

    /* PyByteArray_AS_STRING looks each time whether there is a byte at all, which callers know. */
    #define midge_octets(data) (((PyByteArrayObject *)(data))->ob_start)
    #define midge_room(data) (((PyByteArrayObject *)(data))->ob_alloc)

    /* A build with MIDGE_BOUNDSCHECK looks whether the bytes are there. */
    static inline char *midge_at(PyObject *data, Py_ssize_t position, Py_ssize_t size) {
    #ifdef MIDGE_CHECKED
        if (position < 0 || size < 0 || position > Py_SIZE(data) - size)
            Py_FatalError("bytes that a bytearray does not have");
    #else
        (void)size;
    #endif
        return midge_octets(data) + position;
    }
    """
    int __builtin_clzll(unsigned long long value) noexcept nogil
    char *midge_octets(bytearray data) noexcept nogil
    char *midge_at(bytearray data, Py_ssize_t position, Py_ssize_t size) noexcept
    Py_ssize_t midge_room(bytearray data) noexcept nogil
    unsigned long long midge_fold(unsigned long long a, unsigned long long b) noexcept nogil
    Py_ssize_t midge_common(const char *one, const char *other, const char *end) noexcept nogil
    void midge_copy_short(
        char *target, Py_ssize_t room, const unsigned char *source, Py_ssize_t left,
        Py_ssize_t length) noexcept nogil
    void midge_repeat(
        char *target, Py_ssize_t offset, Py_ssize_t length, Py_ssize_t room) noexcept nogil
    void midge_copy(char *target, const unsigned char *source, Py_ssize_t length) noexcept nogil


cdef inline unsigned int u16(bytearray data, Py_ssize_t index) noexcept:
    cdef unsigned short value
    memcpy(&value, midge_at(data, index * 2, 2), 2)
    return value


cdef inline void set_u16(bytearray data, Py_ssize_t index, unsigned int value) noexcept:
    cdef unsigned short narrow = <unsigned short>value
    memcpy(midge_at(data, index * 2, 2), &narrow, 2)


cdef inline unsigned int u32(bytearray data, Py_ssize_t index) noexcept:
    return u32_at(data, index * 4)


cdef inline void set_u32(bytearray data, Py_ssize_t index, unsigned int value) noexcept:
    set_u32_at(data, index * 4, value)


cdef inline unsigned int u32_at(bytearray data, Py_ssize_t position) noexcept:
    cdef unsigned int value
    memcpy(&value, midge_at(data, position, 4), 4)
    return value


cdef inline unsigned int word(const unsigned char *data, Py_ssize_t position) noexcept:
    cdef unsigned int value
    memcpy(&value, data + position, 4)
    return value


cdef inline void set_u32_at(bytearray data, Py_ssize_t position, unsigned int value) noexcept:
    memcpy(midge_at(data, position, 4), &value, 4)


cdef inline unsigned long long u64_at(bytearray data, Py_ssize_t position) noexcept:
    cdef unsigned long long value
    memcpy(&value, midge_at(data, position, 8), 8)
    return value


cdef inline unsigned long long u48_at(bytearray data, Py_ssize_t position) noexcept:
    return u64_at(data, position) & 0xFFFFFFFFFFFFULL


cdef inline void set_u64_at(bytearray data, Py_ssize_t position, unsigned long long value) noexcept:
    memcpy(midge_at(data, position, 8), &value, 8)


@cython.overflowcheck(False)
cdef inline unsigned int plus(unsigned int one, unsigned int other) noexcept:
    return one + other


@cython.overflowcheck(False)
cdef inline unsigned int minus(unsigned int one, unsigned int other) noexcept:
    return one - other


cdef inline Py_ssize_t bit_length(unsigned long long value) noexcept:
    return 64 - __builtin_clzll(value) if value != 0 else 0


@cython.overflowcheck(False)
cdef inline unsigned long long product(
    unsigned long long one, unsigned long long other
) noexcept:
    return one * other


cdef inline int resize(bytearray data, Py_ssize_t size) except -1:
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(data)
    PyByteArray_Resize(data, size)
    if size > before:
        memset(midge_octets(data) + before, 0, size - before)
    return 0


cdef inline Py_ssize_t grow(bytearray data, Py_ssize_t size) except -1:
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(data)
    PyByteArray_Resize(data, before + size)
    return before


# CPython keeps the room that a bytearray has had as long as half of it is in use.
cdef inline Py_ssize_t grow_in_steps(bytearray data, Py_ssize_t size, Py_ssize_t most) except -1:
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(data)
    cdef Py_ssize_t wanted = before + size
    if wanted >= midge_room(data) and wanted < most:
        PyByteArray_Resize(data, min(wanted * 2, most))
    PyByteArray_Resize(data, wanted)
    return before


cdef inline void put(
    bytearray target, Py_ssize_t position, const unsigned char *data, Py_ssize_t start,
    Py_ssize_t end
) noexcept:
    midge_copy(midge_at(target, position, end - start), data + start, end - start)


cdef inline void put_short(
    bytearray target, Py_ssize_t position, const unsigned char *data, Py_ssize_t start,
    Py_ssize_t end, Py_ssize_t data_end
) noexcept:
    midge_copy_short(
        midge_at(target, position, end - start), PyByteArray_GET_SIZE(target) - position,
        data + start, data_end - start, end - start
    )


cdef inline void repeat(
    bytearray data, Py_ssize_t position, Py_ssize_t offset, Py_ssize_t length
) noexcept:
    midge_repeat(
        midge_at(data, position - offset, offset + length) + offset, offset, length,
        PyByteArray_GET_SIZE(data) - position
    )


cdef inline bytes take(bytearray data, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(midge_at(data, start, end - start), end - start)


cdef inline void move(bytearray data, Py_ssize_t target, Py_ssize_t start, Py_ssize_t end) noexcept:
    memmove(midge_at(data, target, end - start), midge_at(data, start, end - start), end - start)


cdef inline bint is_same(
    bytearray data, Py_ssize_t position, const unsigned char *other, Py_ssize_t start,
    Py_ssize_t end
) noexcept:
    return memcmp(midge_at(data, position, end - start), other + start, end - start) == 0


cdef inline Py_ssize_t common(
    bytearray data, Py_ssize_t one, Py_ssize_t other, Py_ssize_t end
) noexcept:
    cdef char *base = midge_octets(data)
    return midge_common(base + one, base + other, base + end)


# Sixteen bytes a step, folded by a multiplication whose both halves count; the last ones are read
# again where they are fewer. Collisions cannot be steered without the seed.
cdef inline unsigned int seeded_hash(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, unsigned long long seed
) noexcept:
    cdef unsigned long long mixed = seed ^ <unsigned long long>(end - start)
    cdef unsigned long long one, two
    cdef Py_ssize_t length = end - start
    data += start
    while length > 16:
        memcpy(&one, data, 8)
        memcpy(&two, data + 8, 8)
        mixed = midge_fold(one ^ mixed, two ^ 0x9E3779B97F4A7C15ULL ^ seed)
        data += 16
        length -= 16
    one = 0
    two = 0
    if length >= 8:
        memcpy(&one, data, 8)
        memcpy(&two, data + length - 8, 8)
    elif length >= 4:  # copies of a fixed length are a load each, others a call
        memcpy(&one, data, 4)
        memcpy(<unsigned char *>&one + 4, data + length - 4, 4)
    elif length > 0:
        one = data[0] | data[length >> 1] << 8 | data[length - 1] << 16
    mixed = midge_fold(one ^ mixed, two ^ 0x9E3779B97F4A7C15ULL ^ seed)
    return <unsigned int>(midge_fold(mixed, 0xD6E8FEB86659FD93ULL) >> 17)
