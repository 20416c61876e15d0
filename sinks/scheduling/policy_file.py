"""Reads the policy of a TOML file."""

import tomllib
from dataclasses import replace
from pathlib import Path

from dutycycle.contract.errors import SettingError
from sinks.scheduling.core.classes import check_lasts
from sinks.scheduling.core.policy import Policy, policy_of

EPOCH_S = 1_767_225_600.0
"""The first moment of 2026 (UTC): the default of ``epoch_s`` on a cluster."""


def read_policy(path: str, asked_by: str) -> Policy:
    """Return the policy in a file. Raises ``SettingError``, which names ``asked_by`` and the file."""
    try:
        return policy_of(tomllib.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingError(f"{asked_by} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{asked_by} {path}: is no TOML: {error}") from error
    except SettingError as error:
        raise SettingError(f"{asked_by} {path}: {error}") from error


def policy_of_cluster(path: str | None, asked_by: str, now_s: float) -> Policy:
    """Return the policy of a cluster, where priorities are moments by the clock; without a file the default.

    Raises ``SettingError``, also where ``now_s`` (Unix seconds) has no priority in it.
    """
    policy = Policy() if path is None else read_policy(path, asked_by)
    if not policy.epoch_s:
        policy = replace(policy, epoch_s=EPOCH_S)
    check_lasts(policy, now_s)
    return policy
