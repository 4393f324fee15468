"""A project whose jobs go through the outbox."""
