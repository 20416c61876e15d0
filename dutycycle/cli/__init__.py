"""The command line: flags, sub-commands, their output."""
