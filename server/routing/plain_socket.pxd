# The system call of plain_socket.py, inlined where chunks are written.

cdef extern from *:
    """
    #include <sys/socket.h>

    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0  /* Python ignores SIGPIPE */
    #endif
    """
    int MSG_DONTWAIT, MSG_NOSIGNAL
    Py_ssize_t _send "send"(int descriptor, const void *data, size_t length, int flags) noexcept


cdef inline Py_ssize_t send(
    int descriptor, const unsigned char *data, Py_ssize_t length
) noexcept:
    return _send(descriptor, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)
