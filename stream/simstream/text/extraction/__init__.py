"""Main-content extraction from HTML, in processes of its own."""
