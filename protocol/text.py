"""Subjects, queue names and ids as text: UTF-8 with surrogateescape; invalid bytes round-trip."""


def encode(text: str) -> bytes:
    """Encode text for the wire. Raises: ValueError for text that `decode` never returns."""
    return text.encode("utf-8", "surrogateescape")


def decode(raw: bytes) -> str:
    """Decode bytes from the wire."""
    return raw.decode("utf-8", "surrogateescape")
