"""gmloop: the GameMaker toolchain. One process a command; `gmloop mcp` serves the same commands as tools."""
