"""Extraction of the text that counts from HTML: by a parser in processes of its own, or by kernels."""
