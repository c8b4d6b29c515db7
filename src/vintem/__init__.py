"""Vintém: an open payments platform for Brazil."""
