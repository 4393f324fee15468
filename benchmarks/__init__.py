"""Benchmarks of the README's figures: `python -m benchmarks.run --help`."""
