# Members of an enum, which C computes with; layout.py has the meanings.

cdef enum:
    LINE = 28
    LINE_SUBJECT = 0
    LINE_SUBJECT_LENGTH = 4
    LINE_PAYLOAD = 8
    LINE_PAYLOAD_LENGTH = 12
    LINE_NUMBER = 16
    LINE_PLACE = 20
    LINE_DISTANCE = 24

    ROW = 20
    ROW_OFFSET = 0
    ROW_SIZE = 4
    ROW_SUBJECT = 8
    ROW_BEFORE = 12
    ROW_AFTER = 16

    SUBJECT = 40
    SUBJECT_NAME = 0
    SUBJECT_COUNT = 8
    SUBJECT_FIRST = 16
    SUBJECT_LAST = 24
    SUBJECT_HASH = 32
    SUBJECT_LENGTH = 36

    BITS = 10
    SPAN = 1024
    MASK = 1023
