"""Records as bytes and back: pages, frames, verdicts, positions."""
