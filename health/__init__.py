"""How a running process is asked how it is: ``/healthz``, ``/readyz`` and ``/metrics``.

``address`` says where, ``pages`` what is answered, ``server`` does so in threads of its own; ``exposition``
turns figures into Prometheus' text, ``beat`` sees an event loop that stands still, ``serving`` puts these
together, and ``ask`` is the other side.
"""
