"""Finds insights: what kind of workload a pod or job is, and what holds it back, from its last minutes. Pure.

Imports columns and the results of cycles; knows nothing of peaks and trends.
"""
