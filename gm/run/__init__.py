"""A run: its log, its rules, its context, its end and its recovery."""
