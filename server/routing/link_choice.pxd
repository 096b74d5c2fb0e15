# C types for link_choice.py.

cimport cython

from midge.server.routing.client cimport Client
from midge.sublist.result cimport QueueGroup
from midge.sublist.subscription cimport RemoteSubscription


cdef int _ROUTE


@cython.locals(members=tuple, member=RemoteSubscription, total="long long", last="long long",
               place="long long", is_last=bint, link=Client)
cpdef Client pick_link(QueueGroup group, Client publisher, object chooser, Py_ssize_t here=*)


@cython.locals(chosen=Client, back=Client, members=tuple, member=RemoteSubscription, link=Client)
cpdef Client pick_instead(
    QueueGroup group, Client publisher, object chooser, bint has_members
)
