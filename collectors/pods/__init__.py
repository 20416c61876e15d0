"""The pods collector: who the pods are and which job owns them, by the API server."""
