"""`simstream plan`: table designs for a size, a distance and a memory, with what a query costs under each."""
