"""Says what a service is without, because the streams do not compute it."""

from dutycycle.contract.analyses import ANALYSES, MISSED_BY, NEEDED_BY
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry
from sinks.events import ANALYSIS_OFF


def check_analyses(service: str, settings: Settings, telemetry: Telemetry) -> None:
    """Say what ``service`` is without; raise ``SettingError`` where it could do nothing."""
    chosen = settings.analyses
    needed, why = NEEDED_BY.get(service, (None, ""))
    if needed is not None and needed not in chosen:
        add = ",".join(name for name in (*ANALYSES[needed].needs, needed) if name not in chosen)
        raise SettingError(
            f"DUTYCYCLE_ANALYSES={','.join(chosen)}: {service} needs {needed}, because {why}: add {add}"
        )
    for analysis, missed in MISSED_BY.get(service, {}).items():
        if analysis not in chosen:
            detail = f"{service}: as DUTYCYCLE_ANALYSES has no {analysis}, {missed}"
            telemetry.emit(ANALYSIS_OFF, detail, about=service, analysis=analysis)
