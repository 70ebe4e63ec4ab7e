"""The layout of `~/.gmnew`: builds, pointers and their swap; registrations with hosts; repair, doctor, uninstall."""
