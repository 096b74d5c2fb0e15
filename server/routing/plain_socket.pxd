# The system calls of plain_socket.py, inlined where chunks are written and bytes are read.

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/socket.h>

    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0  /* Python ignores SIGPIPE */
    #endif

    static inline Py_ssize_t midge_receive(int descriptor, unsigned char *data, size_t length) {
        Py_ssize_t count = recv(descriptor, data, length, MSG_DONTWAIT);
        return count < 0 ? -errno : count;
    }
    """
    int MSG_DONTWAIT, MSG_NOSIGNAL
    Py_ssize_t _send "send"(int descriptor, const void *data, size_t length, int flags) noexcept
    Py_ssize_t midge_receive(int descriptor, unsigned char *data, size_t length) noexcept nogil


cdef inline Py_ssize_t send(
    int descriptor, const unsigned char *data, Py_ssize_t length
) noexcept:
    return _send(descriptor, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)


cdef inline Py_ssize_t receive(
    int descriptor, unsigned char *data, Py_ssize_t start, Py_ssize_t length
) noexcept:
    return midge_receive(descriptor, data + start, length)


cdef inline Py_ssize_t receive_more(
    int descriptor, unsigned char *data, Py_ssize_t start, Py_ssize_t length
) noexcept:
    cdef Py_ssize_t count
    with nogil:
        count = midge_receive(descriptor, data + start, length)
    return count
