"""An app with a model whose method is a job."""
