"""The log in a local directory: topic files, locks, readers and writers."""
