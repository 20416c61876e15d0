"""The sub-commands, a module each: what it takes (``add_arguments``) and what it does (``run``)."""
