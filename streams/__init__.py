"""What turns samples into windows, trends, cycles and peaks."""
