"""gm: a long-horizon work loop for coding agents, shipped as one self-updating program."""

__version__ = "0.1.0"
