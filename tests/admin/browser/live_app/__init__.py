"""An app of the site that the browser visits: what its worker runs."""
