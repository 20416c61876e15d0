"""The operator of a node: watermark, windows, and all that is computed per node. Pure."""
