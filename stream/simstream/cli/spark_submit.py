"""The program for `spark-submit`, which takes the arguments of `simstream spark`."""

import sys

from simstream.cli.main import invoke

if __name__ == "__main__":
    sys.exit(invoke(["spark", *sys.argv[1:]]))
