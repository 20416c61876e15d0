"""The pytest plugin that brings the test servers as fixtures."""
