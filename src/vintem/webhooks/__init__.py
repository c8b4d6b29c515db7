"""Telling integrators: every status change is an event in the same commit."""
