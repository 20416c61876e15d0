"""Runs River's models beside the built-in banks: per subject, with their state in the snapshot. Pure.

May import: ``columns`` and River, which is imported only where a model asks for it.
"""
