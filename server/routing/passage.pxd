cdef int _ROLES, _ROUTE, _WORKER, _HUB, _STREAM, _NO, _GO, _GR, _BOTH
cdef bytes _DIRECT

cpdef int passes(int origin, int target, int border=*) except -1
cpdef bint crosses(int origin, int border) except -1
cpdef bint is_announced(int link, int source) except -1
