"""Goal: the published examples of every record decode, and are written again byte for byte the same."""

import pytest

from wire.codec import decode, encode
from wire.derived import Subject, gpu_subject, job_subject, node_subject, pod_subject
from wire.topics import TOPICS, full_name, short_name

_POD = (
    '{"v":1,"uid":"4f0c","namespace":"default","name":"bert-worker-0","node":"gpu-a","phase":"Running",'
    '"created_ms":1,"started_ms":2,"finished_ms":3,"images":["i:1"],"gpu_uuids":["GPU-1"],"gpu_request":1,'
    '"job":{"api_version":"kubeflow.org/v2beta1","kind":"MPIJob","name":"bert","uid":"77aa","role":"worker",'
    '"replica":0}}'
)
_PEAK = '{"max":100,"mean":71,"at_ms":1}'
EXAMPLES = {
    "nvml-samples": (
        '{"v":1,"node":"gpu-a","collector":"c","seq":42,"ts_ms":1700000000000,"interval_ms":1000,'
        '"gpus":[{"uuid":"GPU-1","index":0,"model":"NVIDIA H200",'
        '"gpu_util_pct":97,"mem_copy_util_pct":41,"mem_used_bytes":1,"mem_total_bytes":2,'
        '"power_w":612.3,"power_limit_w":700,"energy_j":918273.1,"temp_c":61,"sm_clock_mhz":1980,'
        '"mem_clock_mhz":3201,"pcie_rx_bytes_per_s":1,"pcie_tx_bytes_per_s":1,"pcie_gen":5,"pcie_width":16,'
        '"throttle":["sw_power_cap"],"util_burst":[[-980,95],[-813,100]],"power_burst":[[-980,603.1]],'
        '"mig":[{"uuid":"MIG-1","profile":"1g.18gb","mem_used_bytes":1,"mem_total_bytes":2,"gpu_util_pct":40}],'
        '"processes":[{"pid":4711,"pod_uid":"4f0c","container_id":"c1","name":"python",'
        '"gpu_util_pct":95,"mem_copy_util_pct":40,"mem_used_bytes":1}]}]}'
    ),
    "cgroup-samples": (
        '{"v":1,"node":"gpu-a","collector":"c","seq":42,"ts_ms":1700000000000,"interval_ms":1000,'
        '"host":{"cpu_util_pct":812.5,"cpu_count":64,"mem_used_bytes":1,"mem_total_bytes":2,'
        '"disk_read_bytes_per_s":1,"disk_write_bytes_per_s":1,"net_rx_bytes_per_s":1,"net_tx_bytes_per_s":1},'
        '"pods":[{"uid":"4f0c","qos":"burstable","net_rx_bytes_per_s":1,"net_tx_bytes_per_s":1,'
        '"containers":[{"id":"c1","cpu_util_pct":151.8,"cpu_throttled_pct":3.1,"mem_used_bytes":1,'
        '"mem_limit_bytes":2,"io_read_bytes_per_s":1,"io_write_bytes_per_s":1}]}]}'
    ),
    "pods": _POD,
    "window-aggregates": (
        '{"v":1,"subject":{"kind":"gpu","node":"a","gpu":"GPU-1"},"metric":"gpu_util_pct","size_ms":60000,'
        '"start_ms":0,"end_ms":60000,"count":60,"mean":71.2,"std":9.1,"min":3,"max":100,"p50":72,"p95":99,'
        '"p99":100}'
    ),
    "trends": (
        '{"v":1,"subject":{"kind":"node","node":"a"},"metric":"mem_used_bytes","ts_ms":1,"level":1.0,'
        '"slope_per_s":0.2,"forecast":[{"horizon_s":10,"value":1.0,"p05":0.9,"p95":1.1}],"exhausts_in_s":840}'
    ),
    "cycles": (
        '{"v":1,"subject":{"kind":"pod","node":"a","pod_uid":"4f0c"},"metric":"gpu_util_pct","ts_ms":1,'
        '"cyclic":true,"period_s":13.24,"confidence":0.98,"since_ms":1,'
        '"others":[{"period_s":0.41,"confidence":0.9}]}'
    ),
    "pod-peaks": (
        '{"v":1,"pod":' + _POD + ',"first_ms":1,"last_ms":2,"samples":600,"final":false,'
        '"metrics":{"gpu_util_pct":' + _PEAK + '},"gpus":{"gpu-a/0":{"gpu_util_pct":' + _PEAK + "}}}"
    ),
    "job-peaks": (
        '{"v":1,"job":{"api_version":"batch/v1","kind":"Job","name":"bert","uid":"77aa"},"first_ms":1,'
        '"last_ms":2,"final":true,"metrics":{"cpu_util_pct":' + _PEAK + "},"
        '"pods":{"bert-worker-0":{"node":"gpu-a","metrics":{"cpu_util_pct":' + _PEAK + '},"gpus":{}}}}'
    ),
    "dead-letters": (
        '{"v":1,"topic":"dutycycle.nvml-samples","partition":0,"offset":12,"ts_ms":1,"reason":"decode",'
        '"error":"payload: not JSON at byte 1","payload_b64":"…"}'
    ),
}


@pytest.mark.parametrize("topic", EXAMPLES)
def test_an_example_survives_byte_for_byte(topic: str) -> None:
    data = EXAMPLES[topic].encode()
    assert encode(decode(TOPICS[topic].record, data, topic)) == data


def test_every_public_topic_has_an_example() -> None:
    assert list(EXAMPLES) == [topic.name for topic in TOPICS.values() if not topic.internal]


@pytest.mark.parametrize(
    ("name", "key", "cleanup"),
    [
        ("nvml-samples", "node", "delete"),
        ("cgroup-samples", "node", "delete"),
        ("pods", "pod uid", "compact"),
        ("window-aggregates", "subject", "delete"),
        ("trends", "subject", "compact"),
        ("cycles", "subject", "compact"),
        ("pod-peaks", "pod uid", "compact"),
        ("job-peaks", "job uid", "compact"),
        ("dead-letters", "key of the bad record", "delete"),
    ],
)
def test_topics_are_the_published_ones(name: str, key: str, cleanup: str) -> None:
    topic = TOPICS[name]
    assert (topic.key, topic.cleanup) == (key, cleanup)
    config = topic.config()
    assert config["cleanup.policy"] == cleanup
    assert ("retention.ms" in config) == (cleanup == "delete")
    assert int(config["max.message.bytes"]) >= topic.max_bytes


@pytest.mark.parametrize("prefix", ["dutycycle.", "", "team-a."])
def test_full_and_short_names_are_each_other_s_inverse(prefix: str) -> None:
    for name in TOPICS:
        assert full_name(prefix, name) == prefix + name
        assert short_name(prefix, prefix + name) == name


@pytest.mark.parametrize("full", ["nvml-samples", "other.nvml-samples", "dutycycle.nvml", "dutycycle.", ""])
def test_a_topic_that_is_none_of_ours(full: str) -> None:
    assert short_name("dutycycle.", full) is None


@pytest.mark.parametrize(
    ("subject", "key"),
    [
        (gpu_subject("a", "GPU-1"), "gpu/a/GPU-1"),
        (node_subject("a"), "node/a"),
        (pod_subject("a", "4f0c"), "pod/4f0c"),
        (job_subject("77aa"), "job/77aa"),
    ],
)
def test_a_subject_s_key(subject: Subject, key: str) -> None:
    assert subject.key == key
    assert decode(Subject, b'{"v":1,' + encode(subject)[1:], "trends") == subject
