"""Merges the states and findings of a job's pods. Imports its parent's modules; they never import it."""
