"""Queries: an HTTP API over the role `query` (extra `query`). Nothing below `cli` imports it."""
