# The checksums and the writing thread of native.h; native.py has the contracts.

from cpython.bytearray cimport PyByteArray_AS_STRING


cdef extern from "midge/jetstream/store/file/native.h":
    ctypedef struct midge_direct:
        int file
        long long end

    ctypedef struct midge_writer:
        int is_busy
        midge_direct direct
        int file
        int directory
        int seal
        int sync
        int passing
        unsigned char *data
        long long used
        long long position
        long long extend
        int zeroed
        long long warm_start
        long long warm_end
        unsigned int store_seed
        unsigned long long segment
        int stage
        int error

    void midge_crc_setup() noexcept nogil
    unsigned int midge_seed(
        unsigned int store_seed, unsigned long long segment, unsigned long long position
    ) noexcept nogil
    unsigned int midge_crc(
        const unsigned char *data, size_t length, unsigned int seed
    ) noexcept nogil
    void midge_seal_group(
        unsigned char *data, long long used, unsigned int store_seed,
        unsigned long long segment, unsigned long long position
    ) noexcept nogil
    int midge_check_head(
        const unsigned char *record, long long available, unsigned int store_seed,
        unsigned long long segment, unsigned long long position
    ) noexcept nogil
    int midge_check_record(
        const unsigned char *record, long long available, unsigned int store_seed,
        unsigned long long segment, unsigned long long position
    ) noexcept nogil
    midge_writer *midge_writer_start(int done_in, int done_out) noexcept nogil
    void midge_writer_submit(midge_writer *writer) noexcept nogil
    void midge_direct_use(midge_direct *direct, int file) noexcept nogil
    bint midge_writer_write_direct(
        midge_writer *writer, int file, unsigned char *data, long long used, long long position,
        unsigned int store_seed, unsigned long long segment
    ) noexcept nogil
    int midge_writer_take(midge_writer *writer) noexcept nogil
    void midge_writer_settle(midge_writer *writer) noexcept nogil
    void midge_writer_stop(midge_writer *writer) noexcept nogil


cdef inline void prepare() noexcept:
    midge_crc_setup()


cdef inline unsigned int crc32(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end, unsigned int seed
) noexcept:
    return midge_crc(data + start, end - start, seed)


cdef inline unsigned int place_seed(
    unsigned int store_seed, unsigned long long segment, unsigned long long position
) noexcept:
    return midge_seed(store_seed, segment, position)


cdef inline void seal_group(
    bytearray data, Py_ssize_t used, unsigned int store_seed, unsigned long long segment,
    unsigned long long position
) noexcept:
    midge_seal_group(
        <unsigned char *>PyByteArray_AS_STRING(data), used, store_seed, segment, position
    )


cdef inline int check_record(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, unsigned int store_seed,
    unsigned long long segment, unsigned long long position
) noexcept:
    return midge_check_record(data + at, end - at, store_seed, segment, position)


cdef inline bint check_head(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, unsigned int store_seed,
    unsigned long long segment, unsigned long long position
) noexcept:
    return midge_check_head(data + at, end - at, store_seed, segment, position)


cdef inline midge_writer *start(int done_in, int done_out) except NULL:
    cdef midge_writer *writer = midge_writer_start(done_in, done_out)
    if writer is NULL:
        raise MemoryError("the store's writing thread cannot be started")
    return writer


cdef inline void submit(
    midge_writer *writer, int file, int directory, bytearray data, Py_ssize_t used,
    long long position, bint seal, bint sync, bint is_passing, unsigned int store_seed,
    unsigned long long segment, long long extend, bint zeroed, long long warm_start,
    long long warm_end
) noexcept:
    if used > 0:
        writer.direct.end = -1  # the last page may be another one after this
    writer.file = file
    writer.directory = directory
    writer.seal = seal
    writer.sync = sync
    writer.passing = is_passing
    writer.data = <unsigned char *>PyByteArray_AS_STRING(data)
    writer.used = used
    writer.position = position
    writer.store_seed = store_seed
    writer.segment = segment
    writer.extend = extend
    writer.zeroed = zeroed
    writer.warm_start = warm_start
    writer.warm_end = warm_end
    midge_writer_submit(writer)


cdef inline void use_direct(midge_writer *writer, int file) noexcept:
    midge_direct_use(&writer.direct, file)


cdef inline bint write_direct(
    midge_writer *writer, int file, bytearray data, Py_ssize_t used, long long position,
    unsigned int store_seed, unsigned long long segment
) noexcept:
    return midge_writer_write_direct(
        writer, file, <unsigned char *>PyByteArray_AS_STRING(data), used, position, store_seed,
        segment
    )


cdef inline bint is_busy(midge_writer *writer) noexcept:
    return writer.is_busy


cdef inline bint take(midge_writer *writer) noexcept:
    return midge_writer_take(writer)


cdef inline void settle(midge_writer *writer) noexcept:
    with nogil:
        midge_writer_settle(writer)


cdef inline int stage(midge_writer *writer) noexcept:
    return writer.stage


cdef inline int error(midge_writer *writer) noexcept:
    return writer.error


cdef inline void stop(midge_writer *writer) noexcept:
    with nogil:
        midge_writer_stop(writer)
