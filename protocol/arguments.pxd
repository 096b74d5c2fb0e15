# C types for arguments.py.

cimport cython

cdef Py_ssize_t _MAX_SIZE_DIGITS


cpdef list split_arguments(bytes arguments)

@cython.locals(number=Py_ssize_t, digit=int, i=Py_ssize_t)
cpdef Py_ssize_t parse_size(const unsigned char *data, Py_ssize_t start, Py_ssize_t end)
