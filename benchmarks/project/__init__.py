"""A small Django project: what is measured when Django is part of it."""
