"""What turns objects of the core into what a template shows."""
