"""Turns logs of other programs into a trace of ``nvml-samples``: a reader for each format.

The figures of Alibaba's cluster-trace-gpu-v2020 are no format here. Its ``pai_sensor_table`` has one mean for
the whole life of an instance and no time, its ``pai_machine_metric`` one mean over all GPUs of a machine for
the life of an instance (https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2020/README.md, "Note of
sensor" and "Note of machine_ metrics"): there is no sample of a GPU at a moment in it.
"""
