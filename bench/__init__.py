"""What we claim, as programs that measure it."""
