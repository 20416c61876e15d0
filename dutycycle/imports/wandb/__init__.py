"""Runs of Weights & Biases: ``file`` reads the blocks of a ``.wandb`` file, ``run`` what is in them, and
``samples`` makes samples of it.

May import: the other readers of logs, ``contract``.
"""
