"""The records on the topics, a module for each source or result.

May import: ``contract.units``, ``contract.log``.
"""
