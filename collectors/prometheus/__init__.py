"""The Prometheus collector: samples that dcgm-exporter, cAdvisor and node_exporter took."""
