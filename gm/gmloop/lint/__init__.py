"""Lint: rules over the syntax tree, Feather directives, fixes, reporters."""
