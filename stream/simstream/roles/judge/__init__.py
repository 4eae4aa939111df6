"""The judge's role: follows, stands for election, judges, publishes, takes snapshots."""
