# The parts of PUB and MSG lines in C; lines.py has the contracts.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from midge.protocol.frame cimport Frame


cdef extern from *:
    """
    #include <string.h>
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    #define MIDGE_EACH(byte) (0x0101010101010101ULL * (byte))
    #define MIDGE_HIGH_BITS MIDGE_EACH(0x80)

    static inline unsigned long long midge_word(const unsigned char *data) {
        unsigned long long word;
        memcpy(&word, data, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        return word;  /* the first byte is the lowest */
    }

    /* gcc calls memcmp with -O1; it copies four bytes in place at every level. */
    static inline int midge_is_publish(const unsigned char *data) {
        unsigned int word, publish;
        memcpy(&word, data, 4);
        memcpy(&publish, "PUB ", 4);
        return word == publish;
    }

    static inline Py_ssize_t midge_token_end(
        const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) {
    #if defined(__SSE2__)
        /* 32 bytes in one step: more than most subjects have. */
        const __m128i blank = _mm_set1_epi8(0x20);
        while (end - start >= 32) {
            __m128i one = _mm_loadu_si128((const __m128i *)(data + start));
            __m128i two = _mm_loadu_si128((const __m128i *)(data + start + 16));
            unsigned int found = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(two, blank), two));
            found <<= 16;
            found |= _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(one, blank), one));
            if (found) return start + __builtin_ctz(found);
            start += 32;
        }
    #endif
        /* A byte below 0x21 borrows from its own highest bit, and no byte before it does. */
        while (end - start >= 8) {
            unsigned long long word = midge_word(data + start);
            unsigned long long found = (word - MIDGE_EACH(0x21)) & ~word & MIDGE_HIGH_BITS;
            if (found) return start + (__builtin_ctzll(found) >> 3);
            start += 8;
        }
        while (start < end && data[start] > 0x20) start++;
        return start;
    }

    /* The last step takes bytes again if it has too few. */
    static inline int midge_is_token(
        const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) {
        if (end - start < 8) return midge_token_end(data, start, end) == end;
    #if defined(__SSE2__)
        if (end - start >= 16) {
            const __m128i blank = _mm_set1_epi8(0x20);
            for (;;) {
                __m128i word = _mm_loadu_si128((const __m128i *)(data + start));
                if (_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(word, blank), word))) return 0;
                if (end - start <= 16) return 1;
                start += 16;
                if (end - start < 16) start = end - 16;
            }
        }
    #endif
        for (;;) {
            unsigned long long word = midge_word(data + start);
            if ((word - MIDGE_EACH(0x21)) & ~word & MIDGE_HIGH_BITS) return 0;
            if (end - start <= 8) return 1;
            start += 8;
            if (end - start < 8) start = end - 8;
        }
    }

    static inline Py_ssize_t midge_size_at(
        const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) {
        if (end - start < 8) return 0;
        unsigned long long word = midge_word(data + start) ^ MIDGE_EACH(0x30);
        /* What is above 9 carries into its highest bit; what that spoils lies behind it. */
        unsigned long long found = ((word + MIDGE_EACH(0x76)) | word) & MIDGE_HIGH_BITS;
        int digits = found ? __builtin_ctzll(found) >> 3 : 0;
        if (!digits) return 0;
        /* Leading zeros first; then pairs, fours and eights of digits, all at once. */
        word <<= 64 - 8 * digits;
        word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FFULL;
        word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFFULL;
        word = (word * 10000 + (word >> 32)) & 0xFFFFFFFFULL;
        return (Py_ssize_t)(word << 3 | digits);
    }
    """
    bint midge_is_publish(const unsigned char *data) noexcept nogil
    bint midge_is_token(
        const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) noexcept nogil
    Py_ssize_t midge_token_end(
        const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) noexcept nogil
    Py_ssize_t midge_size_at(
        const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    ) noexcept nogil

cdef enum:
    LOOSE_BYTES = 64


cdef inline bint is_publish(const unsigned char *data, Py_ssize_t start) noexcept:
    return midge_is_publish(data + start)


cdef inline Py_ssize_t token_end(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    return midge_token_end(data, start, end)


cdef inline bint has_blank(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept:
    cdef unsigned char byte
    if midge_is_token(data, start, end):
        return False
    start = midge_token_end(data, start, end)
    while start < end:
        byte = data[start]
        if byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0D:
            return True
        start = midge_token_end(data, start + 1, end)
    return False


cdef inline Py_ssize_t size_at(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    return midge_size_at(data, start, end)


cdef inline void write_loosely(
    unsigned char *target, Py_ssize_t at, bytes verb, Frame frame, bytes sid
) noexcept:
    # A copy of a fixed size compiles to a few moves, so subject and tail are copied in that way.
    # Verbs and sids are copied by their length, because their objects end there; branches on that
    # length are predicted well, because it hardly ever changes from one message to the next.
    cdef const unsigned char *subject = frame.data + frame.base + frame.subject_start
    cdef const unsigned char *tail = frame.data + frame.base + frame.tail
    cdef Py_ssize_t subject_length = frame.subject_end - frame.subject_start
    cdef Py_ssize_t tail_length = frame.end - frame.tail
    memcpy(target + at, PyBytes_AS_STRING(verb), 4)
    at += 4
    if PyBytes_GET_SIZE(verb) > 4:
        target[at] = 0x20
        at += 1
    memcpy(target + at, subject, 32)
    if subject_length > 32:
        memcpy(target + at + 32, subject + 32, subject_length - 32)
    at += subject_length
    target[at] = 0x20
    at += 1
    if PyBytes_GET_SIZE(sid) == 1:
        target[at] = PyBytes_AS_STRING(sid)[0]
    else:
        memcpy(target + at, PyBytes_AS_STRING(sid), PyBytes_GET_SIZE(sid))
    at += PyBytes_GET_SIZE(sid)
    target[at] = 0x20
    at += 1
    memcpy(target + at, tail, 64)
    if tail_length > 64:
        memcpy(target + at + 64, tail + 64, tail_length - 64)
