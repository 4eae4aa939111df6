"""A large collection at once, with Spark (extra `spark`): fingerprints, matches and clusters.

`prints` makes fingerprints of files, `pairs` finds matches in blocks of permuted fingerprints, `forest` ties them
to clusters, each as a function over partitions; `job` strings them together.
"""

from simstream.errors import Unavailable

try:
    import pyspark as pyspark
except ImportError as error:
    raise Unavailable(
        "the batch job needs PySpark, which is not installed", "run pip install 'simstream[spark]'"
    ) from error
