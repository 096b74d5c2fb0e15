from midge.protocol.frame cimport Frame


cdef class Handler:
    cpdef object sender(self)
    cpdef void on_budget_spent(self) except *
    cpdef bint on_publish(self, Frame frame) except -1
    cpdef Py_ssize_t on_publish_run(self, Frame frame, Py_ssize_t count) except -1
    cpdef void on_subscribe(self, bytes subject, bytes queue, bytes sid) except *
    cpdef void on_unsubscribe(self, bytes sid, long long max_messages) except *
    cpdef void on_connect(self, bytes document) except *
    cpdef void on_ping(self) except *
    cpdef void on_pong(self) except *
    cpdef void on_info(self, bytes document) except *
    cpdef void on_peer_error(self, bytes text) except *
    cpdef void on_link_subscribe(self, bytes subject, bytes queue, long long weight) except *
    cpdef void on_link_unsubscribe(self, bytes subject, bytes queue) except *
    cpdef void on_link_message(self, Frame frame, list queues) except *
