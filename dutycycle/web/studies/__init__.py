"""Reports of runs and their comparisons on the page: ``runs`` finds what is asked for, ``study`` makes a
report in a process of its own, of samples or of what is ``recorded``; ``shared`` keeps what was made for all
who ask.
"""
