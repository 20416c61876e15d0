"""From settings to what a Kafka client needs to connect: addresses, TLS, credentials.

Knows no driver: the clients of ``bus`` and the Faust apps take the same answers from here.
"""

import ssl
from typing import Any

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings

_TLS = "kafka+ssl"


def bootstrap_servers(settings: Settings) -> list[str]:
    """``host:port`` of each broker in ``DUTYCYCLE_BROKER``. Raises ``SettingError`` when it is not set."""
    if settings.broker is None:
        raise SettingError("DUTYCYCLE_BROKER is not set: give kafka://host:9092, or kafka+ssl://… for TLS")
    return settings.broker.partition("://")[2].split(",")


def uses_tls(settings: Settings) -> bool:
    """Whether the broker's address asks for TLS."""
    return settings.broker is not None and settings.broker.startswith(_TLS + "://")


def ssl_context(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context, None without TLS. Host names are always checked.

    Raises ``SettingError`` for a file that is no certificate or key, and for certificates that an address
    without TLS would leave unused.
    """
    if not uses_tls(settings):
        _refuse_unused(settings)
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca)
    except ssl.SSLError as error:
        raise SettingError(f"DUTYCYCLE_TLS_CA={settings.tls_ca!r}: holds no PEM certificates") from error
    if settings.tls_cert is not None:
        try:
            context.load_cert_chain(settings.tls_cert, settings.tls_key)
        except ssl.SSLError as error:
            raise SettingError(
                f"DUTYCYCLE_TLS_CERT={settings.tls_cert!r} and DUTYCYCLE_TLS_KEY={settings.tls_key!r}: "
                "not a PEM certificate and its private key"
            ) from error
    return context


def _refuse_unused(settings: Settings) -> None:
    for name in ("tls_ca", "tls_cert"):
        if getattr(settings, name) is not None:
            raise SettingError(
                f"DUTYCYCLE_{name.upper()} is set, but DUTYCYCLE_BROKER asks for no TLS: "
                f"write {_TLS}://{','.join(bootstrap_servers(settings))}"
            )


def security_kwargs(settings: Settings) -> dict[str, Any]:
    """Protocol, TLS context and SASL credentials, by the argument names of aiokafka's clients."""
    context = ssl_context(settings)
    transport = "SSL" if context else "PLAINTEXT"
    if settings.sasl_mechanism is None:
        return {"security_protocol": transport, "ssl_context": context}
    return {
        "security_protocol": f"SASL_{transport}",
        "ssl_context": context,
        "sasl_mechanism": settings.sasl_mechanism,
        "sasl_plain_username": settings.sasl_username,
        "sasl_plain_password": settings.sasl_password,
    }
