"""Which version of simstream this is, for every layer to say."""

__version__ = "0.1.0"
