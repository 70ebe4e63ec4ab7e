"""What differs per operating system: atomic files, locks, environment, paths, processes."""
