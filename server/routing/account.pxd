from midge.sublist.sublist cimport SubList
from midge.sublist.subscription cimport Subscription


cdef class Account:
    cdef object __weakref__
    cdef public str name
    cdef public SubList sublist
    cdef readonly set clients
    cdef public object mapper
    cdef public bint system
    cdef public object watcher

    cpdef object add(self, Subscription subscription)
    cpdef object remove(self, Subscription subscription)
