"""The fixtures of the end-to-end tests serve here, too."""

from tests.e2e.conftest import alone, on_folder, on_kafka, program

__all__ = ["alone", "on_folder", "on_kafka", "program"]
