"""Holds what the live view knows, bounded: the newest of every node, GPU, pod and job, with a history of
each.

Pure: records in, values out. Time comes with the records.
"""
