"""The relay: the host's pipe, the opening, and the life of the workers behind it. Standard library only."""
