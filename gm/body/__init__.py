"""run_code: the process a body runs in, the `gm` object inside it, budgets and background runs."""
