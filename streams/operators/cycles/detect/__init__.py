"""Tells whether a window of samples has a cycle: spectrum, fold, confidence. Pure."""
