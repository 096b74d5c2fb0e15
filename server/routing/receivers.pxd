cimport cython

from midge.protocol.frame cimport Frame
from midge.server.routing.passage cimport passes
from midge.server.routing.client cimport Client
from midge.sublist.result cimport QueueGroup, Remotes, SubListResult
from midge.sublist.subscription cimport RemoteSubscription


cdef int GROUPS


@cython.locals(remotes=Remotes, named=dict, taken=Py_ssize_t, links=tuple, link=Client,
               queues=list)
cpdef Py_ssize_t forward(
    SubListResult result, Client publisher, Frame frame, dict picked, dict carried
) except -1


@cython.locals(named=dict, link=Client, chosen=Client)
cpdef dict name_groups(tuple links, Client publisher, dict picked, dict carried)


@cython.locals(taken=Py_ssize_t, link=Client)
cpdef Py_ssize_t send_to_all(tuple links, Client publisher, Frame frame) except -1


@cython.locals(remotes=Remotes, links=tuple, link=Client, chosen=Client)
cpdef bint links_take_run(SubListResult result, Client publisher, Frame frame) except -1


@cython.locals(remotes=Remotes, links=tuple, link=Client, sent=Py_ssize_t, chosen=Client,
               group=QueueGroup)
cpdef Py_ssize_t forward_run(
    SubListResult result, Client publisher, Frame frame, Py_ssize_t count
) except -1


@cython.locals(only=Client, weight="long long", members=tuple, member=RemoteSubscription,
               group=QueueGroup)
cdef Client _only_link(Remotes remotes, Client publisher)


@cython.locals(remotes=Remotes, picked=dict, group=QueueGroup, chosen=Client, here=Py_ssize_t,
               is_carried=bint)
cpdef dict pick_links(SubListResult result, Client publisher, object chooser, dict carried)


@cython.locals(members=tuple, member=RemoteSubscription, total="long long", last="long long",
               place="long long", is_last=bint, link=Client)
cpdef Client pick_link(QueueGroup group, Client publisher, object chooser, Py_ssize_t here=*)


@cython.locals(remotes=Remotes, group=QueueGroup, chosen=Client)
cpdef Client pick_instead(bytes name, SubListResult result, Client publisher, object chooser)


@cython.locals(back=Client, members=tuple, member=RemoteSubscription, link=Client)
cdef Client _pick_back(QueueGroup group, Client publisher, bint has_members)
