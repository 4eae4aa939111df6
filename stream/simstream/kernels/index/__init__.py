"""Kernels of the index: scans, packed tables, confirmation by the sketch."""
