"""Holds the sub-commands of a cluster's processes, which run until they are stopped; as in ``commands``."""
