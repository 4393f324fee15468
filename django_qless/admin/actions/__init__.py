"""Actions: each changes something, asked for with GET and done with POST."""
