"""Metrics, health, the service's log lines, and the HTTP port that shows metrics and health."""
