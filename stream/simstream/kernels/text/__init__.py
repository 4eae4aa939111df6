"""Kernels over text: fold, tokenize, regroup, weigh, SimHash, sketch; and the counts for training and truth."""
