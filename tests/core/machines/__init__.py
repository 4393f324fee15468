"""State machines that judge the core at its wire, each beside a model in plain Python."""
