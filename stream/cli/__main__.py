"""`python -m stream.cli`: the command line."""

from stream.cli.main import run

run()
