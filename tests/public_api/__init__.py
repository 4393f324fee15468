"""Snapshot of everything that users import, type, parse or store."""
