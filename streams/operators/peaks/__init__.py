"""Maximum utilization of pods and jobs, merged over sources and nodes. Pure."""
