"""`simstream dedup`: kept pages, pairs and clusters of a run over files."""
