"""The replies by which JetStream is acknowledged, as they go over links.

A message that a consumer delivers has the reply `$JS.ACK.…`. Over a link it goes under its deliver
subject, and its own subject stands behind that reply and an `@`.
"""

from midge.protocol.frame import Frame, compose

ACK_PREFIX = b"$JS.ACK."
_DOTS = 8


def as_shown(frame: Frame) -> Frame:
    """Return `frame` as a client sees it: under its own subject, with the reply alone."""
    reply = frame.reply_bytes()
    if reply is None or not reply.startswith(ACK_PREFIX):
        return frame
    at = reply.find(b"@")
    if at < 0 or reply.count(b".", 0, at) < _DOTS or at + 1 == len(reply):
        return frame
    return compose(reply[at + 1 :], frame.payload_bytes(), reply[:at], frame.header_bytes())


def as_sent(frame: Frame, deliver_subject: bytes) -> Frame:
    """Return `frame` as it goes over links: under the subject by which JetStream delivers it."""
    reply = frame.reply_bytes()
    named = None if reply is None else b"%b@%b" % (reply, frame.subject_bytes())
    return compose(deliver_subject, frame.payload_bytes(), named, frame.header_bytes())
