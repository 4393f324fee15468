"""Job types: registry, options, signatures, handles and the running job."""
