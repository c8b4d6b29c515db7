"""What integrators have called, and what they were answered."""
