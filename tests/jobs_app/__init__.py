"""An app with jobs of every kind, for the tests of the Django layer and the worker."""
