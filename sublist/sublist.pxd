cimport cython

from midge.sublist cimport octets
from midge.sublist.prefix_results cimport PrefixResults
from midge.sublist.mutex cimport Mutex
from midge.sublist.recent cimport RecentMatches
from midge.sublist.result cimport SubListResult
from midge.sublist.result_cache cimport ResultCache
from midge.sublist.subjects cimport is_literal, is_valid_subject
from midge.sublist.subscription cimport RemoteSubscription, Subscription
from midge.sublist.trie cimport Node, Trie, build_result
from midge.sublist.sharded_dict cimport ShardedDict


cdef int ENDED, NOT_HELD
cdef Py_ssize_t _GROUP_STEPS, _LEVEL_STEPS, _PLAIN_PER_STEP, _READ_PER_STEP


@cython.final
cdef class SubList:
    cdef readonly unsigned long long generation
    cdef readonly long long steps
    cdef public object listener
    cdef readonly SubList remotes
    cdef readonly RecentMatches recent
    cdef bint _exact_match
    cdef ShardedDict _exact
    cdef Trie _trie
    cdef Py_ssize_t _elsewhere, _count
    cdef ResultCache _cache
    cdef PrefixResults _prefix_results
    cdef SubListResult _empty
    cdef Mutex _mutex
    cdef Py_ssize_t _turn
    cdef readonly long long _inserts, _removes, _matches, _cache_hits

    @cython.locals(subject=bytes, literal=bint, node=Node, begins=bint, visited="long long")
    cpdef object insert(self, Subscription subscription)
    @cython.locals(subject=bytes, literal=bint, node=Node, outcome=int, visited="long long")
    cpdef object remove(self, Subscription subscription)
    cdef void _changed(self, bytes subject, bint literal, Subscription added) except *
    @cython.locals(steps="long long")
    cpdef object insert_remote(self, RemoteSubscription subscription)
    @cython.locals(steps="long long")
    cpdef object remove_remote(self, RemoteSubscription subscription)
    @cython.locals(subject=bytes, literal=bint)
    cdef void _note_remote(self, RemoteSubscription subscription, Py_ssize_t change) except *
    @cython.locals(node=Node)
    cpdef Py_ssize_t count_members(self, bytes subject, bytes queue) except -1
    @cython.locals(node=Node)
    cpdef list exactly(self, bytes subject, bytes queue)
    cdef object _held(self, bytes subject)
    cpdef void clear(self) except *
    @cython.locals(node=Node, result=SubListResult)
    cpdef SubListResult match(self, bytes subject)
    @cython.locals(result=SubListResult)
    cpdef SubListResult match_within(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    )
    @cython.locals(subject=bytes, generation="unsigned long long", hits="long long",
                   result=SubListResult)
    cpdef SubListResult match_again(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
    )
    cpdef bint has_interest(self, bytes subject) except -1
    @cython.locals(remotes=SubList)
    cdef bint _is_literal_of_remotes(self, bytes subject) except -1
    @cython.locals(node=Node, result=SubListResult, nodes=list, visited="long long")
    cdef SubListResult _match_uncached(self, bytes subject)
    @cython.locals(start=Py_ssize_t, is_last_token=bint, remotes=SubList, trie=Trie)
    cdef void _keep_prefix(self, bytes subject, SubListResult result) except *
    @cython.locals(node=Node, result=SubListResult, plain=list, queues=dict)
    cdef SubListResult _combined_result(self, list nodes)
    @cython.locals(result=SubListResult, plain=list, queues=dict)
    cdef SubListResult _node_result(self, Node node)


cdef Py_ssize_t _steps_of(SubListResult result) except -1
