"""prometheus-adapter, the metrics API server of kubernetes-sigs: built once from its pinned Go module."""
