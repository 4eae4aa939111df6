"""What people run beside the service: feeding, mending gaps."""
