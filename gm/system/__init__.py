"""What differs per operating system: atomic files, locks, environment, paths, processes; and JSON with comments."""
