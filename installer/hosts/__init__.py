"""The hosts that gm registers with: which file, which key, which form, one module a format."""
