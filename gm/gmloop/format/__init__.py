"""Layout of GML: an opinionated formatter that checks its own output before anyone writes it."""
