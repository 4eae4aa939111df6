"""`simstream feed`: pages from files into the topic `pages`."""
