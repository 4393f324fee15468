"""What the README's figures are measured with: `python -m benchmarks.run --help`."""
