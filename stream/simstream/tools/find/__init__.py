"""`simstream find-all`, `find-clusters`, `find-near`: near pairs in lists of fingerprints."""
