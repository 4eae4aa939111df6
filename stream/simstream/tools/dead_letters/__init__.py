"""`simstream dead-letters`: list dead letters, and send their pages again."""
