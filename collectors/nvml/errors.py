"""How NVIDIA's driver library says no, sorted by what follows from it."""


class Refused(Exception):  # noqa: N818 - these are answers, most of them ordinary
    """A call without an answer. ``reason`` is NVML's name for it, short and one of a few."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unsupported(Refused):
    """This device and driver will never answer this call: remember it, do not ask again."""


class Nothing(Refused):
    """There is nothing to answer at the moment: a buffer is empty, a slot is not used."""


class Hiccup(Refused):
    """This call failed; the next one may not."""


class Lost(Refused):
    """The device has fallen off the bus or has to be reset; the others go on."""


class Away(Refused):
    """The driver or its library is not there: no device can be asked."""
