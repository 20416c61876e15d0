"""Computes logarithm and exponential of single precision, in operations that a processor does for several at
once.

Those of the C library take one value at a time, and differ in the last bit from one processor to another.
"""

import numpy as np

from streams.compiled import kernel

_F, _I = np.float32, np.int32
LARGEST = 87.0
"""Above this, up or down, an exponential is no normal number."""


@kernel
def log(value: np.float32) -> np.float32:
    """Return the natural logarithm of a normal number, to 1e-7 of it (FreeBSD's ``logf``)."""
    bits = _F(value).view(_I)
    power = _I((_I(bits - 0x3F3504F3)) >> 23)
    off = _I(bits - _I(power << 23)).view(_F) - _F(1)  # from sqrt(1/2) to sqrt(2), less one
    s = off / (_F(2) + off)
    z = s * s
    w = z * z
    rest = w * (_F(0.40000972152) + w * _F(0.24279078841)) + z * (_F(0.66666662693) + w * _F(0.28498786688))
    half = _F(0.5) * off * off
    times = _F(power)
    return s * (half + rest) + times * _F(9.0580006145e-06) - half + off + times * _F(0.69313812256)


@kernel
def exp(value: np.float32) -> np.float32:
    """Return e to the ``value``, to 1e-7 of it (S. L. Moshier's ``expf``); at most ``LARGEST`` counts."""
    value = min(max(value, _F(-LARGEST)), _F(LARGEST))
    power = _I(_I(value * _F(1.44269504) + _F(127.5)) - 127)  # positive before it is cut off: rounded
    times = _F(power)
    off = value - times * _F(0.693359375) - times * _F(-2.12194440e-4)
    sum_ = _F(1.9875691500e-4)
    sum_ = sum_ * off + _F(1.3981999507e-3)
    sum_ = sum_ * off + _F(8.3334519073e-3)
    sum_ = sum_ * off + _F(4.1665795894e-2)
    sum_ = sum_ * off + _F(1.6666665459e-1)
    sum_ = sum_ * off + _F(5.0000001201e-1)
    sum_ = sum_ * off * off + off + _F(1)
    return sum_ * _I(_I(power + 127) << 23).view(_F)
