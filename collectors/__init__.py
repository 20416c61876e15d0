"""What runs on a node: measures GPUs, cgroups and pods once a tick and publishes the samples."""
