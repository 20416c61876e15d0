"""``kubectl dutycycle``: what the annotations on nodes, pods and jobs say, as tables.

``cli`` parses, ``run`` runs; ``api`` speaks to the API server; ``kinds`` are the objects that own pods;
``figures`` reads annotations (pure); ``top``, ``peaks`` and ``why`` are the sub-commands; ``complete``
completes them.
Nothing heavy is imported before it is needed: a completion may take no longer than a blink.
"""
