"""How a call becomes a job on the server: its arguments, its options, one call."""
