"""Reads arrivals that others have published, a file a format; columns as their README files have them."""
