"""Small Django project for the benchmarks that include Django."""
