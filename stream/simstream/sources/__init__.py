"""Input files as records of pages: JSONL, CSV, Parquet, WARC/ARC, HTML, text."""
