"""A large collection at once, with Spark (extra `spark`): fingerprints, matches and clusters.

`near_duplicates` takes a DataFrame and returns one; `job` takes files and writes Parquet. `fingerprints` makes
fingerprints. `versions` finds the last version of each page. `pairs` finds matches in blocks of permuted
fingerprints. `forest` ties them to clusters. Each works on partitions. `comparison` strings them together.
`session` is the Spark session that the job runs in. `places` refuses inputs that the job cannot read.
"""

from simstream.errors import needs

with needs("the batch job", "spark"):
    import pyspark as pyspark

from simstream.spark.frames import near_duplicates as near_duplicates
