"""What insight is worth: ours beside its peers, on the same cases, in one run (``bench.bench_insight``)."""
