"""Arguments and results as JSON, with model instances as references."""
