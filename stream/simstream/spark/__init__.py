"""A large collection at once, with Spark (extra `spark`): fingerprints, matches and clusters.

`near_duplicates` takes a DataFrame and returns one; `job` takes files and writes Parquet. `fingerprints` makes
fingerprints. `comparison` finds the last version of each page, lets `pairs` find matches in blocks of permuted
fingerprints, and ties them to clusters. Each works on partitions. `session` is the Spark session that the job runs
in. `places` refuses inputs that the job cannot read.
"""

from simstream.errors import needs

with needs("the batch job", "spark"):
    import pyspark as pyspark

from simstream.spark.frames import near_duplicates as near_duplicates
