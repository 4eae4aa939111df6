"""The page store: a record on disk for every stored page, in chunks."""
