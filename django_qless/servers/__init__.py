"""Which server an alias of QLESS means, and the private ones for development and tests."""
