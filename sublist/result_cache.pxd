cimport cython

from midge.sublist.result cimport SubListResult
from midge.sublist.subjects cimport matches
from midge.sublist.subscription cimport Subscription


cdef Py_ssize_t _COPIED_MAX, _READ_PER_STEP, _WEIGHT_MAX


@cython.final
cdef class ResultCache:
    cdef readonly dict by_subject
    cdef Py_ssize_t _most, _sweep_to, _weight
    cdef long long _misses, _hits_before, _keep_every

    cdef bint is_sampling(self)
    cdef bint skips_next(self)
    cdef void skip(self)
    @cython.locals(reach=Py_ssize_t)
    cdef void keep(self, bytes subject, SubListResult result, long long hits) except *
    @cython.locals(keys=list, key=bytes, known=SubListResult, steps=Py_ssize_t)
    cdef Py_ssize_t add(self, Subscription added, bint literal) except -1
    @cython.locals(keys=list, key=bytes, steps=Py_ssize_t)
    cdef Py_ssize_t drop(self, bytes subject, bint literal) except -1
    cdef void clear(self) except *
    @cython.locals(key=bytes, most=Py_ssize_t, steps=Py_ssize_t)
    cdef Py_ssize_t _find_matched(self, bytes pattern, bint literal, list found) except -1
    @cython.locals(surplus=Py_ssize_t)
    cdef void _sweep(self, long long hits) except *
