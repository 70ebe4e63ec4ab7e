"""The verbs: one module a family, every verb declared once."""
