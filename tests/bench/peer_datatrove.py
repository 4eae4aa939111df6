"""Deduplicates a folder of Parquet files with datatrove's MinHash and its defaults: PAGES OUT. Keeps `OUT/kept`.

It runs in the Python of the peer, so it imports nothing of this project.
"""

import os
import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import JsonlWriter


def main(pages: str, out: str) -> None:
    """Sign, compare by bucket, cluster and filter."""
    folders = {name: str(Path(out, name)) for name in ("signatures", "buckets", "removed", "kept", "logs")}
    config, tasks, workers = MinhashConfig(), len(list(Path(pages).iterdir())), os.cpu_count() or 1

    def run(name: str, tasks: int, *steps: object) -> None:
        logs = str(Path(folders["logs"], name))
        LocalPipelineExecutor(list(steps), tasks=tasks, workers=min(tasks, workers), logging_dir=logs).run()

    reader = ParquetReader(pages)
    run("sign", tasks, reader, MinhashDedupSignature(folders["signatures"], config))
    compare = MinhashDedupBuckets(folders["signatures"], folders["buckets"], config=config)
    run("buckets", config.num_buckets, compare)
    run("cluster", 1, MinhashDedupCluster(folders["buckets"], folders["removed"], config=config))
    kept = JsonlWriter(folders["kept"], compression=None)
    run("filter", tasks, reader, MinhashDedupFilter(folders["removed"]), kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
