"""Defines what others rely on: records, topics, the codec, trace files, settings. Start reading here.

May import: the standard library, msgspec, orjson, zstandard. Nothing of ours lies below.

``records/``   what crosses Kafka, a class a record; every unit is the last part of a field's name
``settings/``  every ``DUTYCYCLE_*`` setting, in groups, with its help; how they are read
``topics``     which record is on which topic, under which key
``codec``      records to JSON bytes and back, checked
``log``        a record as it lies in Kafka, and as it is sent
``trace``      trace files: a recorded stream in JSON lines
"""
