# CRC-32C of crc32c.h; crc32c.py has the contracts.

cdef extern from "midge/jetstream/archive/crc32c.h":
    void midge_crc32c_setup() noexcept nogil
    unsigned int midge_crc32c(
        const unsigned char *data, size_t length, int by_tables
    ) noexcept nogil


cdef inline void prepare() noexcept:
    midge_crc32c_setup()


cdef inline unsigned int crc32c(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, bint by_tables
) noexcept:
    return midge_crc32c(data + start, end - start, by_tables)
