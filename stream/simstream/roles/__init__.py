"""The roles of the service, which `simstream serve` runs: fingerprinter, judge, query."""
