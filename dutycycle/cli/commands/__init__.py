"""Holds the sub-commands of a user: what each takes (``add_arguments``) and what it does (``run``)."""
