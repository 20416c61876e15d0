"""Turns the state into lines of styled text: pure, and the same for a screen, a log and a test.

A span is (text, style), a line is a list of spans. Styles are words; the screen knows their colours.
"""
