"""Leaves to the next run of `feed --resume` a last line that another program has not finished yet."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from simstream.sources.input_files import FileKind, InputFile, Say, opened, shown_path
from simstream.sources.lines import COMPRESSIONS


def up_to_whole_line(files: Sequence[InputFile], max_record_bytes: int, say: Say) -> list[InputFile]:
    """Return the files, of which the last one is read only as far as it is now, and its last line is whole.

    A line is whole if it has a line end, is JSON, or is too long for a page. Changes only JSONL on the disk that is
    not compressed. `say` hears of a line that is left out. Reads at most the last `max_record_bytes`.
    """
    *others, last = files
    is_plain = last.kind is FileKind.JSONL and not last.path.lower().endswith(COMPRESSIONS)
    if last.is_remote or not last.is_regular or not is_plain:
        return [*files]
    with opened(last.path) as file:
        end = file.seek(0, os.SEEK_END)
        begin = file.seek(max(0, end - max_record_bytes))
        tail = file.read(end - begin)
    line = tail[tail.rfind(b"\n") + 1 :]
    if (begin == 0 or len(line) < len(tail)) and line.strip() and not _is_json(line):
        say(f"the last line of {shown_path(last.path)} is not finished: it is left for the next run")
        end -= len(line)
    return [*others, last._replace(end=end)]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
