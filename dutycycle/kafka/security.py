"""Makes of settings what a Kafka client needs to connect: addresses, TLS, credentials.

The clients of ``dutycycle.kafka`` and the Faust apps take the same answers from here.
"""

import ssl
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.secret import Secret
from dutycycle.telemetry.certificate import Certificate

_TLS = "kafka+ssl"


def bootstrap_servers(settings: Settings) -> list[str]:
    """Return ``host:port`` of each broker in ``DUTYCYCLE_BROKER``. Raises ``SettingError`` when it is not
    set."""
    if settings.broker is None:
        raise SettingError("DUTYCYCLE_BROKER is not set: give kafka://host:9092, or kafka+ssl://… for TLS")
    return settings.broker.partition("://")[2].split(",")


def ssl_context(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context, None without TLS. Host names are always checked.

    Raises ``SettingError`` for a file that is no certificate or key, and for certificates that an address
    without TLS would leave unused.
    """
    if settings.broker is None or not settings.broker.startswith(_TLS + "://"):
        for name in ("tls_ca", "tls_cert"):
            if getattr(settings, name) is not None:
                raise SettingError(
                    f"DUTYCYCLE_{name.upper()} is set, but DUTYCYCLE_BROKER asks for no TLS: "
                    f"write {_TLS}://{','.join(bootstrap_servers(settings))}"
                )
        return None
    context = _RenewedContext(ssl.PROTOCOL_TLS_CLIENT)  # which asks for a certificate of this host
    try:
        if settings.tls_ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(settings.tls_ca)
    except ssl.SSLError as error:
        raise SettingError(f"DUTYCYCLE_TLS_CA={settings.tls_ca!r}: holds no PEM certificates") from error
    try:
        context.certificate = Certificate(settings.tls_cert, settings.tls_key, context, settings.tls_ca)
    except ssl.SSLError as error:
        raise SettingError(
            f"DUTYCYCLE_TLS_CERT={settings.tls_cert!r} and DUTYCYCLE_TLS_KEY={settings.tls_key!r}: "
            "not a PEM certificate and its private key"
        ) from error
    return context


class _RenewedContext(ssl.SSLContext):
    """Makes each connection with the certificates that lie in the files then: who replaces them renews
    them."""

    certificate: Certificate

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection, as asyncio does it. Files that cannot be used leave what was there before: the
        broker judges that."""
        self.certificate.renew()
        return super().wrap_bio(*args, **options)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # the driver has no types
    """Reads the token of OAUTHBEARER, as it is when a connection is made: who replaces its file renews it."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    async def token(self) -> str:
        """Return the token."""
        return self._token.now()


def token_provider(settings: Settings) -> TokenProvider | None:
    """Return the token to authenticate with; None with any mechanism but OAUTHBEARER."""
    if settings.sasl_mechanism != "OAUTHBEARER" or settings.sasl_token is None:
        return None
    return TokenProvider(settings.sasl_token)


def security_kwargs(settings: Settings) -> dict[str, Any]:
    """Return protocol, TLS context and SASL credentials, by the argument names of aiokafka's clients."""
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
        "sasl_oauth_token_provider": token_provider(settings),
    }
