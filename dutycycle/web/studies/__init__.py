"""Reports of runs and their comparisons on the page: ``study`` makes one in a process of its own, of samples
or of what is ``recorded``; ``shared`` keeps what was made for all who ask.
"""
