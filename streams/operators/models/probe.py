"""Tells whether a model can be trusted with a state: restored, it has to say the same as if it never
stopped."""

from collections.abc import Sequence
from math import sin

from msgspec import msgpack

from dutycycle.contract.errors import SettingError
from streams.operators.models.bank import Model
from streams.operators.models.roles import ModelRole, RoleConfig

TICKS = 400
_CUTS = (60, 250, 390)
_STEPS = (1, 5)


def probe(model: Model, lags: int) -> None:
    """Feed it made-up ticks, beside one that is built again, and one that is restored from its state.

    Raises ``SettingError`` that names the model where these differ in any bit, or where it cannot be built,
    stored or restored. A model that has not learnt enough to answer may raise errors.
    """
    config = RoleConfig(model.metrics, _STEPS, lags, model.codec)
    try:
        why = _difference(model, config)
    except Exception as error:
        raise SettingError(f"model {model.name}: {type(error).__name__}: {error}") from error
    if why is not None:
        raise SettingError(f"model {model.name}: {why}")


def _difference(model: Model, config: RoleConfig) -> str | None:
    straight, twin, other = (model.role(model.build, config) for _ in range(3))
    for second in range(TICKS):
        row = [_value(second, at) for at in range(len(model.metrics))]
        if second in _CUTS:
            other = model.role(model.build, config)
            other.restore(msgpack.decode(msgpack.encode(straight.snapshot())))
        answer = _answer(straight, row, second)
        if _answer(twin, row, second) != answer:
            return "built twice, it says two things: give it a seed"
        if _answer(other, row, second) != answer:
            return "restored from its state, it says something else"
    if msgpack.encode(straight.snapshot()) != msgpack.encode(other.snapshot()):
        return "restored from its state, it goes on to another state"
    return None


def _answer(role: ModelRole, row: Sequence[float], second: int) -> str:
    """Return all that a model answers to a tick, to the last bit."""
    step = role.learn(row)
    return repr((step, role.forecast() if second % 7 == 0 else None))


def _value(second: int, column: int) -> float:
    """Return a rhythm with noise and a jump, as utilization has them; the same each time."""
    noise = (second * 2_654_435_761 + column * 97) % 4096 / 4096 * 6
    return 50 + 35 * sin(second / (4 + column)) + noise + (20 if second > TICKS // 2 else 0)
