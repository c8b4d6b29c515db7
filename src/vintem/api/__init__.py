"""The integrator's REST interface."""
