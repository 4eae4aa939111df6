"""Benchmarks: each checks the answer first, then compares with a named peer or floor in the same run."""
