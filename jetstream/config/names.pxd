cimport cython

from midge.sublist cimport subjects
from midge.sublist.overlaps cimport OverlapIndex


cpdef bytes to_bytes(str subject)

@cython.locals(character=Py_UCS4)
cpdef bint is_valid_name(str name) except -1

cpdef Py_ssize_t size(str text) except -1

cpdef bint is_valid_subject(str subject) except -1

@cython.locals(found=OverlapIndex, number=Py_ssize_t)
cpdef OverlapIndex pattern_set(subjects_of)
