"""Keeps an installed gm up to date: asks for the manifest, judges it, downloads, checks and swaps the build."""
