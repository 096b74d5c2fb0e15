# Subjects and their results in C; subject_table.py has the contracts.

from cpython.ref cimport PyObject

from midge.sublist.result cimport SubListResult

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* A subject by its length and four words, which overlap where it is shorter than 32 bytes. */
    typedef struct {
        uint64_t length;
        uint64_t words[4];
        PyObject *subject, *result;  /* owned by who has put them */
        uint64_t unused;  /* up to a cache line of 64 bytes */
    } midge_subject;

    typedef struct {
        midge_subject key;
        uint64_t tags;  /* in each bucket's slot, the highest four bits; the rest is a number */
        size_t bucket;
    } midge_key;

    static inline uint64_t midge_load(const unsigned char *data) {
        uint64_t word;
        memcpy(&word, data, 8);
        return word;
    }

    static inline uint64_t midge_load_short(const unsigned char *data, size_t length) {
        if (length >= 4) {
            uint32_t first, last;
            memcpy(&first, data, 4);
            memcpy(&last, data + length - 4, 4);
            return (uint64_t)first << 32 | last;
        }
        if (!length) return 0;
        return (uint64_t)data[0] << 16 | (uint64_t)data[length / 2] << 8 | data[length - 1];
    }

    static inline midge_key midge_key_of(
        const unsigned char *data, size_t length, size_t capacity
    ) {
        midge_key made;
        uint64_t *words = made.key.words;
        made.key.length = length;
        if (length < 8) {
            words[0] = midge_load_short(data, length);
            words[1] = words[2] = words[3] = 0;
        } else {
            words[0] = midge_load(data);
            words[1] = midge_load(data + (length < 16 ? length - 8 : 8));
            words[2] = midge_load(data + (length < 16 ? 0 : length - 16));
            words[3] = midge_load(data + length - 8);
            /* What lies between is not kept, only mixed in. */
            for (size_t at = 16; at + 16 < length; at += 8)
                words[1] = (words[1] ^ midge_load(data + at)) * 0x9E3779B97F4A7C15ULL;
        }
        /* Collisions that are forced gain an attacker nothing: one costs a look-up that misses. */
        uint64_t mixed = (words[0] + length) * 0x9E3779B97F4A7C15ULL +
                         words[1] * 0xC2B2AE3D27D4EB4FULL + words[2] * 0x165667B19E3779F9ULL +
                         words[3] * 0xD6E8FEB86659FD93ULL;
        mixed = (mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15ULL;
        made.tags = mixed >> 60;
        made.bucket = (mixed >> 32) & (capacity - 1);
        return made;
    }

    static inline uint64_t *midge_buckets(unsigned char *table) {
        return (uint64_t *)(((uintptr_t)table + 63) & ~(uintptr_t)63);
    }

    static inline void midge_empty(unsigned char *table, size_t capacity) {
        memset(midge_buckets(table), 0, capacity * sizeof(uint64_t));
    }

    static inline PyObject *midge_find_result(
        unsigned char *table, size_t capacity, const unsigned char *data, size_t length
    ) {
        uint64_t *buckets = midge_buckets(table);
        const midge_subject *subjects = (const midge_subject *)(buckets + capacity);
        midge_key sought = midge_key_of(data, length, capacity);
        uint64_t slots = buckets[sought.bucket];
        const uint64_t each = 0x0001000100010001ULL;
        uint64_t differing = (slots >> 12 & each * 15) ^ sought.tags * each;
        /* A slot without a difference borrows from its highest bit, and no wrong one before it. */
        uint64_t alike = (differing - each) & ~differing & each << 15;
        while (alike) {
            Py_ssize_t number = slots >> (__builtin_ctzll(alike) - 15) & 4095;
            const midge_subject *found = subjects + number;
            const uint64_t *one = found->words, *other = sought.key.words;
            if (!((found->length ^ sought.key.length) | (one[0] ^ other[0]) |
                  (one[1] ^ other[1]) | (one[2] ^ other[2]) | (one[3] ^ other[3])) &&
                (length <= 32 || !memcmp(PyBytes_AS_STRING(found->subject), data, length)))
                return found->result;  /* NULL beside number 0, which is an empty slot's */
            alike &= alike - 1;
        }
        return NULL;
    }

    static inline void midge_put_result(
        unsigned char *table, size_t capacity, PyObject *subject, PyObject *result,
        Py_ssize_t number
    ) {
        uint64_t *buckets = midge_buckets(table);
        const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(subject);
        midge_key added = midge_key_of(data, PyBytes_GET_SIZE(subject), capacity);
        added.key.subject = subject;
        added.key.result = result;
        ((midge_subject *)(buckets + capacity))[number] = added.key;
        /* The oldest of the four falls out. */
        buckets[added.bucket] = buckets[added.bucket] << 16 | added.tags << 12 | (uint64_t)number;
    }
    """
    void midge_empty(unsigned char *table, size_t capacity) noexcept nogil
    PyObject *midge_find_result(
        unsigned char *table, size_t capacity, const unsigned char *data, size_t length
    ) noexcept nogil
    void midge_put_result(
        unsigned char *table, size_t capacity, PyObject *subject, PyObject *result,
        Py_ssize_t number
    ) noexcept nogil


cdef enum:
    NUMBERS_MAX = 4096


# A word for each bucket of four, and a cache line for each subject, aligned to cache lines.
cdef inline bytearray make(Py_ssize_t capacity):
    return bytearray((8 + 64) * capacity + 64)


cdef inline void empty(unsigned char *table, Py_ssize_t capacity) noexcept:
    midge_empty(table, capacity)


cdef inline SubListResult find(
    unsigned char *table, Py_ssize_t capacity, const unsigned char *data, Py_ssize_t start,
    Py_ssize_t end
):
    cdef PyObject *found = midge_find_result(table, capacity, data + start, end - start)
    return None if found is NULL else <SubListResult>found


cdef inline void put(
    unsigned char *table, Py_ssize_t capacity, bytes subject, SubListResult result,
    Py_ssize_t number
) noexcept:
    midge_put_result(table, capacity, <PyObject *>subject, <PyObject *>result, number)
