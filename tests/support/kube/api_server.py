"""Our own client, under an account of the real API server."""

from pathlib import Path

from kube.config import Source
from kube.objects import ApiServer, opened


async def api_server(kubeconfig: Path) -> ApiServer:
    """As the kubeconfig says."""
    return await opened(Source(str(kubeconfig), str(kubeconfig)))
