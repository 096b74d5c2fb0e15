# The test of trace_headers.py in C, inlined where each message with headers is looked at.

from libc.string cimport memchr, memcmp

from midge.protocol.frame cimport Frame


cdef inline bint may_ask(const unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept:
    cdef const unsigned char *at = data + start
    cdef const unsigned char *last = data + end
    cdef int i
    while at < last:
        at = <const unsigned char *>memchr(at, 0x0A, last - at)
        if at == NULL:
            return False
        at += 1
        if last - at < 11:
            return False
        if memcmp(at, b"Nats-Trace-", 11) == 0:
            return True
        if at[0] | 0x20 == 0x74:  # t
            i = 0
            while i < 11 and (at[i] | 0x20) == TRACEPARENT[i]:
                i += 1
            if i == 11:
                return True
    return False


cdef inline Py_ssize_t count_untraced(Frame frame, Py_ssize_t count) except -1:
    cdef const unsigned char *data = frame.data
    cdef Py_ssize_t size = frame.header_size
    cdef Py_ssize_t start = frame.base + frame.payload
    cdef Py_ssize_t seen = start
    cdef Py_ssize_t i
    for i in range(count):
        if i == 0 or memcmp(data + seen, data + start, size) != 0:
            if may_ask(data, start, start + size):
                return i
            seen = start
        start += frame.end
    return count


cdef extern from *:
    """
    static const unsigned char TRACEPARENT[] = "traceparent";
    """
    const unsigned char TRACEPARENT[12]
