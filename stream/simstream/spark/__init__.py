"""A large collection at once, with Spark (extra `spark`): fingerprints, matches and clusters.

`near_duplicates` takes a DataFrame and returns one; `job` takes files and writes Parquet. `fingerprints` makes
fingerprints. `versions` finds the last version of each page. `pairs` finds matches in blocks of permuted
fingerprints. `forest` ties them to clusters. Each works on partitions. `comparison` strings them together.
`session` is the Spark session that the job runs in. `places` refuses inputs that the job cannot read.
"""

from simstream.errors import Unavailable

try:
    import pyspark as pyspark
except ImportError as error:
    raise Unavailable(
        "the batch job needs PySpark, which is not installed", "run pip install 'simstream[spark]'"
    ) from error

from simstream.spark.frames import near_duplicates as near_duplicates
