"""A job: the states and findings of its pods, merged. Imports its parent's modules; they never import it."""
