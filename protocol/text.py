"""Subjects, queue names and ids as text: UTF-8, where what is none survives there and back."""


def encode(text: str) -> bytes:
    """Turn text into what it is on the wire. Raises: ValueError for what `decode` never gives."""
    return text.encode("utf-8", "surrogateescape")


def decode(raw: bytes) -> str:
    """Turn what came from the wire into text."""
    return raw.decode("utf-8", "surrogateescape")
