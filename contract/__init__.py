"""What others rely on: records, topics, the codec, trace files, settings. Start reading here.

May import: the standard library, orjson, zstandard. Nothing of ours lies below.

``records/``   what crosses Kafka, a dataclass a record; every unit is the last part of a field's name
``settings/``  every ``DUTYCYCLE_*`` setting, its parser and its line of help
``topics``     which record is on which topic, under which key
``codec``      records to JSON bytes and back, checked
``trace``      trace files: a recorded stream in JSON lines
"""
