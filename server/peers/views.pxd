# C types for views.py.

cimport cython

from midge.server.routing.client cimport Client
from midge.sublist.result cimport Remotes, SubListResult


cpdef SubListResult plain_view(Client source, SubListResult found)


cpdef SubListResult full_view(Client source, SubListResult found)


@cython.locals(only=tuple, named=set, groups=tuple)
cpdef SubListResult view_for(Client source, SubListResult found, list queues)


@cython.locals(plain=tuple, groups=tuple)
cdef Remotes _others(Client source, Remotes remotes, set named)
