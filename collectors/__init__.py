"""Runs on a node: measures GPUs, cgroups and pods once a tick and publishes the samples.

``service`` puts it together, ``runner`` is the tick loop, ``base`` says what a collector is. Each source is a
package of its own that imports none of the others.
May import ``kafka``, ``kube``, ``telemetry``, ``contract``.
"""
