"""Metrics, health, the service's log, and the HTTP port that shows them."""
