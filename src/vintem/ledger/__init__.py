"""Whose money it is; knows no transaction and no withdrawal."""
