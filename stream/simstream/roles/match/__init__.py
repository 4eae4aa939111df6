"""The role `match`: holds shards of the index, and answers the frames of the log."""
