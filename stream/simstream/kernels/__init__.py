"""Numba kernels, by the room that they serve. No I/O, no objects, no locks."""
