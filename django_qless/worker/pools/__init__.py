"""How many jobs run at once, and how they are kept apart."""
