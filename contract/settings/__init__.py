"""Settings: environment variables and flags, parsed and checked at the start.

May import: ``contract.errors``.
"""
