"""Draws the screen: widgets of Textual around the pure views. Imported when there is a terminal, and not
before."""
