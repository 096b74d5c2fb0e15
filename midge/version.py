"""The version of midge, beside the package's face, for what that face imports."""

VERSION = "0.1.0"
