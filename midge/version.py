"""The version of midge, for modules that `import midge` would lead round in a circle."""

__version__ = "0.2.0"


def is_compiled() -> bool:
    """Return whether the hot modules are compiled."""
    from midge.protocol import Frame  # noqa: PLC0415 - reading the version needs no protocol

    return hasattr(Frame, "__pyx_vtable__")
