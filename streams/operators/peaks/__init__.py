"""Finds the most that pods and jobs used so far, merged over sources, nodes and pods. Pure.

Imports columns; knows nothing of workloads, trends and cycles.
"""
