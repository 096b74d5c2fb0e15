# The text of a plain ack, in C; ack_text.py has the contract.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy


cdef inline bytes plain(bytes head, unsigned long long seq):
    cdef char digits[20]
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t length = PyBytes_GET_SIZE(head)
    cdef unsigned long long left = seq
    while True:
        digits[19 - count] = <char>(48 + left % 10)
        count += 1
        left //= 10
        if left == 0:
            break
    cdef bytes made = PyBytes_FromStringAndSize(NULL, length + count + 1)
    cdef char *data = PyBytes_AS_STRING(made)
    memcpy(data, PyBytes_AS_STRING(head), length)
    memcpy(data + length, digits + 20 - count, count)
    data[length + count] = 125
    return made
