"""An app of models whose rows and jobs are special; it has no migrations."""
