"""The computations, pure: time is an argument. The simulator and the servers call the same functions."""
