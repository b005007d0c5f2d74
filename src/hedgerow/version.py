"""The version of the package."""

__version__ = "0.4.0.dev0"
