"""Helm: as installed, else built once from its pinned Go module."""
