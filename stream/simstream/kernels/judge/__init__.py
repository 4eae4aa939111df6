"""Kernels of the judge: the best match, crowds, the directory, page records, pages that leave."""
