"""GML itself: tokens, parser, syntax tree, lossless printer, data about builtins. Knows nothing of projects."""
