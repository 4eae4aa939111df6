"""Starts the Spark session that the job runs in."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from simstream import errors
from simstream.errors import SimstreamError, Unavailable, UsageError
from simstream.processors import cores

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(4 * cores()),
    "spark.default.parallelism": str(4 * cores()),
}
_RAISED = re.compile(r"^simstream\.errors\.(\w+): (.+)", re.MULTILINE)
"""The last line of the traceback of an error that simstream raised in a worker."""


@contextmanager
def session(master: str | None) -> Iterator[SparkSession]:
    """Yield a session, and stop it at the end. `master` None: that of spark-submit, else all cores of this machine.

    Raises Unavailable without Java, UsageError if a worker raised one, and SimstreamError for any other failed job.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # set by spark-submit, with a master of its own
    local = not submitted if master is None else master.startswith("local")
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("simstream").config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    for name, value in (_LOCAL if local else {}).items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise Unavailable(
            f"Spark does not start ({_first(error)})", "install Java 17 or later, and check that its master answers"
        ) from error
    try:
        yield spark
    except PySparkException as error:
        raise _failure(error) from error
    finally:
        spark.stop()


def _failure(error: PySparkException) -> SimstreamError:
    """Return the error that simstream raised in a worker; if it raised none, what Spark says first."""
    found = _RAISED.findall(str(error))
    if not found:
        return SimstreamError(f"the Spark job failed: {_first(error)}", "see what Spark logged")
    name, said = found[-1]
    is_usage = issubclass(getattr(errors, name, SimstreamError), UsageError)
    return UsageError(said) if is_usage else SimstreamError(said)


def _first(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
