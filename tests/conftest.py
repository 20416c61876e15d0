"""What every test can use: the real servers as fixtures (see tests/servers)."""

pytest_plugins = ("tests.servers.plugin", "tests.faults.plugin")
