"""The state of keys in changelog topics: written, read back, fenced."""
