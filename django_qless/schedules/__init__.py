"""Jobs that recur: declared in code or made by hand, and what each tick puts."""
