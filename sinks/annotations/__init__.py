"""Reads results, and writes annotations on nodes, pods and jobs."""
