"""`simstream explain`: why a page got its verdict, from files or from a log."""
