"""What every test can use: the real servers as fixtures (see tests/servers)."""

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.servers.plugin", "tests.faults.plugin")

# On a busy machine an example takes as long as it takes.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
