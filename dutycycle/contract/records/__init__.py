"""Defines the records on the topics, a module for each source or result.

May import: ``dutycycle.contract.units``, ``dutycycle.contract.log``.
"""
