"""`simstream state`: inspect, verify and upgrade a state folder."""
