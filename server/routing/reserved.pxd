# The tests of reserved.py as C comparisons of whole words, inlined where each message is looked at.

from libc.string cimport memcmp


cdef inline bint is_reserved_subject(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    cdef int first = data[start]
    if (first != 0x24 and first != 0x5F) or end - start < 5:  # $ or _
        return False
    return memcmp(data + start, b"$NRG.", 5) == 0 or memcmp(data + start, b"_GR_.", 5) == 0


cdef inline bint is_reserved_reply(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    cdef int first = data[start]
    cdef Py_ssize_t length = end - start
    if first == 0x24:  # $
        return length >= 8 and memcmp(data + start, b"$JS.ACK.", 8) == 0
    if first != 0x5F:  # _
        return False
    return (length >= 4 and memcmp(data + start, b"_R_.", 4) == 0) or (
        length >= 5 and memcmp(data + start, b"_GR_.", 5) == 0
    )


cdef inline bint is_jetstream_request(
    const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    return end - start >= 8 and memcmp(data + start, b"$JS.API.", 8) == 0
