"""Why a message needs a second look: a bit for each reason, of its publisher and its receivers.

Where no bit is set, as is usual, a message is routed and delivered with one test on either side.
"""

# Of a receiver, in `Client.deliver_checks`: why a delivery to it needs one.
CLOSED = 1  # it is closed, or closing
NO_ECHO = 2  # it does not want its own messages
NO_HEADERS = 4  # it cannot read headers
DENIED_SUBJECTS = 8  # its permissions deny it subjects within its subscriptions
REPLY_GRANTS = 16  # each message with a reply allows it to publish one
BEHIND = 32  # its socket does not take the output
TRACED = 64  # what it gets is logged
INTERCEPTED = 128  # a screen sees, changes or refuses deliveries
OVERSIZED = 256  # it is a link to a server with a smaller largest message

# Of a publisher, in `Publishing.publish_checks`: why a publish by it needs one.
VERBOSE = 1  # it wants +OK
PEDANTIC = 2  # it wants its publish subjects checked
RESTRICTED = 4  # its permissions limit what it may publish
MAPPED = 8  # its account rewrites subjects
WATCHED = 16  # its messages are traced
SCREENED = 32  # a screen sees, changes or refuses publishes
RESERVED = 64  # the current frame names a subject reserved for the server
METERED = 128  # it has a quota of messages or bytes a second
