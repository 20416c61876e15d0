"""Is the one Kubernetes client, for the pods collector, the annotations sink and the kubectl plugin.

``objects`` is what they use; below it are ``discovery``, ``client`` and ``config``. May import ``contract``
and ``telemetry``. The only importer of ``kubernetes``, which reads kubeconfigs and service accounts for it.
"""
