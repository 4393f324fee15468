"""`@job`, on functions, methods of models and classes."""
