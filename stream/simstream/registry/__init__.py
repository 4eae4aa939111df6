"""The schema registry of a topic whose values are not plain JSON."""
