"""State on disk, the part that knows nothing of judging: parts, sealed files, the folder with its manifest."""
