"""`simstream replay`: judge a log again, and compare the verdicts."""
