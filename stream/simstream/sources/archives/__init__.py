"""Web archives (WARC and ARC) as pages. Damaged records are passed over and reported.

Bytes go through `packed` (members of gzip and Zstandard, found again behind damage), `flow` (a bounded buffer),
`framing` (records, found again behind wrong lengths), `http` (what a server answered) and `pages`.
FastWARC's own reader does not read ARC, and ends at the first damage, sometimes silently. So it only decodes Brotli
and LZ4 here, and is the tests' oracle for whole archives.
"""
