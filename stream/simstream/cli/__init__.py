"""The command line: one file per command, and what several commands share."""
