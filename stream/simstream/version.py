"""The version of simstream."""

__version__ = "0.1.0"
