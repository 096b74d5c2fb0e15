"""The version of midge, for modules that `import midge` would lead round in a circle."""

__version__ = "0.1.0"
