"""The front door: the ``dutycycle`` command and all its sub-commands."""
