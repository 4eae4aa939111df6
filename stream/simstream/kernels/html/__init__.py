"""Kernels over HTML bytes, for `text/extraction`: what a tree builder would have to do."""
