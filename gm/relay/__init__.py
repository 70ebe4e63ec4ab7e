"""The relay: holds the host's pipe, answers the opening, starts, replaces and feeds workers. Standard library only."""
