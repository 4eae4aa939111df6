"""`simstream status`: which role waits for what."""
