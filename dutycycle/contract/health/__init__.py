"""Tells whether a GPU is broken: NVIDIA's catalogue of Xids, what counts as a change, and the verdict. All of
it is pure. May import ``contract.records`` alone."""
