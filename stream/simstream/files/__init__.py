"""State on disk, the part that knows nothing of judging: parts, sealed files, the folder with its manifest."""

from simstream.files.snapshot_part import SnapshotPart

__all__ = ["SnapshotPart"]
