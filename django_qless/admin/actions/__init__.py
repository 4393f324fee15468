"""What changes something: a verb each, asked for with GET and done with POST."""
