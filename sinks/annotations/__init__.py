"""The annotations sink: reads results, writes annotations on nodes, pods and jobs."""
