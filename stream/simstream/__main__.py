"""`python -m simstream`: the command line."""

from simstream.cli.main import run

run()
