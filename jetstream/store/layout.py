"""Positions of the numbers in the rows of the index, which several modules read and write.

This module is the interpreted twin of ``layout.pxd``, where the positions are C constants: compiled
code would load a module's variable again for each access to a row.
"""

LINE = 28  # bytes of a published line's row: seven numbers of 32 bits
LINE_SUBJECT = 0  # where its subject begins
LINE_SUBJECT_LENGTH = 4
LINE_PAYLOAD = 8  # where its payload begins
LINE_PAYLOAD_LENGTH = 12
LINE_NUMBER = 16  # the number of the subject
LINE_PLACE = 20  # where the message is stored
LINE_DISTANCE = 24  # how far before it the last one of its subject is

ROW = 20  # bytes of a message's row: five numbers of 32 bits
ROW_OFFSET = 0  # in its segment or chunk, bytes
ROW_SIZE = 4  # what the message counts towards the stream's bytes; 0: there is no message
ROW_SUBJECT = 8
ROW_BEFORE = 12  # sequences back to the message before it of its subject; 0: it is the first
ROW_AFTER = 16  # sequences on to the next one; 0: it is the last

SUBJECT = 40  # bytes of a subject's row: four numbers of 64 bits, two of 32
SUBJECT_NAME = 0  # where its name begins
SUBJECT_COUNT = 8
SUBJECT_FIRST = 16
SUBJECT_LAST = 24
SUBJECT_HASH = 32
SUBJECT_LENGTH = 36  # of its name

BITS = 10  # of a sequence: its place in its block
SPAN = 1 << BITS
MASK = SPAN - 1
