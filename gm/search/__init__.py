"""Lines of tracked files: ranked search, grep, and ranked sections of the wiki."""
