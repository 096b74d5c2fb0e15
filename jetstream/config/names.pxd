# C types for names.py.

cimport cython

from midge.sublist cimport subjects
from midge.sublist.overlaps cimport PatternSet


cpdef bytes to_bytes(str subject)

@cython.locals(character=Py_UCS4)
cpdef bint is_valid_name(str name) except -1

cpdef Py_ssize_t size(str text) except -1

cpdef bint is_valid_subject(str subject) except -1

@cython.locals(found=PatternSet, number=Py_ssize_t)
cpdef PatternSet pattern_set(subjects_of)
