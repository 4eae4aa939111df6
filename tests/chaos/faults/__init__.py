"""The faults: a module a kind, a function a scenario. Each takes an arena and a scale, and says what it did."""
