"""Web archives (WARC and ARC) as pages. Damaged records are passed over and reported.

Bytes go through five files. `unpacking` unpacks members of gzip and Zstandard, also after damage; `byte_buffer`
bounds memory; `framing` finds records, also after wrong lengths; `http` parses answers; `pages` makes pages.
FastWARC's own reader does not read ARC, and ends at the first damage, sometimes silently. So it only decodes Brotli
and LZ4 here, and is the tests' oracle for whole archives.
"""
