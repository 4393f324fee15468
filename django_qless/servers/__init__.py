"""The servers of aliases, and private ones for development and tests."""
