"""Our own client, under an account of the real API server."""

from pathlib import Path

from dutycycle.kube.config import ConfigSource
from dutycycle.kube.objects import ApiServer, opened


async def api_server(kubeconfig: Path) -> ApiServer:
    """As the kubeconfig says."""
    return await opened(ConfigSource(str(kubeconfig), str(kubeconfig)))
