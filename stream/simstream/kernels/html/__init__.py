"""Kernels over HTML bytes: what a tree builder would have to do, and what the article of a page is."""
