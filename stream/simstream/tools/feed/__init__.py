"""`simstream feed`: send pages from files to the topic `pages`."""
