"""Requests that are recognised again although they carry no idempotency key."""
