"""The state that the connections of one server share, and the decisions about connections.

Admission, permissions, limits, counts and the notification of observers belong here. Reading and
writing belong into `server/clients`.
"""
