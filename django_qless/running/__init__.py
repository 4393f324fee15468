"""Where a running job meets Django."""
