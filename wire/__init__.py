"""What crosses Kafka, and nothing else. Start reading here.

======================  =====================================================================
module                  concept
======================  =====================================================================
``wire.units``          the value types of fields: percent, bytes, milliseconds, and their ranges
``wire.samples``        what collectors measure: one record per node and tick
``wire.pods``           who a pod is, and which job owns it
``wire.derived``        what streams make of it: windows, trends, cycles, peaks
``wire.insights``       what kind of job something is, and what holds it back
``wire.parts``          the two internal records that carry peaks from node to pod to job
``wire.insight_parts``  the two that carry what insights are found from
``wire.deadletter``     what could not be used, with its reason
``wire.codec``          records to JSON bytes and back, checked
``wire.topics``         the topics, their keys, retention and clean-up
``wire.trace``          trace files: a stream in JSON Lines, as ``kcat -J`` prints it
``wire.settings``       every ``DUTYCYCLE_*`` setting, checked at start
``wire.events``         what may go wrong, by name: one log line and one counter each
``wire.meter``          figures beside events: gauges and counters; ``wire.metrics`` names each
``wire.status``         whether a process is alive, and whether it does its work
``wire.errors``         errors that a user is meant to read
======================  =====================================================================
"""
