"""The commands that people type, one module a command family."""
