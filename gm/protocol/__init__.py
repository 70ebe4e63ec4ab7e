"""Constants that relay and worker share: versions, server info, capabilities, instructions, control frames."""
