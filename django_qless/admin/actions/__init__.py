"""Actions: changes that GET asks to confirm and POST performs."""
