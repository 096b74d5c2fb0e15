# C types for salsa20.py.

cimport cython

cdef unsigned int _MASK


@cython.locals(t="unsigned int",
               x0="unsigned int", x1="unsigned int", x2="unsigned int", x3="unsigned int",
               x4="unsigned int", x5="unsigned int", x6="unsigned int", x7="unsigned int",
               x8="unsigned int", x9="unsigned int", x10="unsigned int", x11="unsigned int",
               x12="unsigned int", x13="unsigned int", x14="unsigned int", x15="unsigned int")
cdef list _rounds(list state)
