"""Runs ``kubectl dutycycle``, which shows as tables what the annotations on nodes, pods and jobs say.

``cli`` parses, ``run`` runs; ``top``, ``peaks``, ``why`` are the sub-commands; ``complete`` is for the shell.
Nothing heavy is imported before it is needed: ``--help`` and a completion of words are not to wait for it.
"""
