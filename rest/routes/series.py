"""`/series` and `/connectors/{name}/series`: the last hour of all workers' connectors, in steps, for plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import AllSeries, ConnectorSeries, json_answer
from headrace.rest.http.requests import HerderOf, MetricsOf, knows_connectors, number_of, speaks_json
from headrace.rest.routes.other_workers import Gathered, OthersOf
from headrace.rest.security.access import NEEDS_NOTHING, AccessOf, needs
from headrace.worker.herder.series import MOST_MINUTES, STEP_S, Figures, Plotted, merged_figures

router = APIRouter(
    tags=["connectors"],
    responses=documented.ERRORS,
    dependencies=[Depends(speaks_json), Depends(knows_connectors)],
)

_ALL: Final = str(MOST_MINUTES)


@router.get(
    "/series",
    dependencies=[NEEDS_NOTHING],
    responses=documented.answers("All connectors together, and the last step of each.", AllSeries),
)
def all_series(
    herder: HerderOf, metrics: MetricsOf, access: AccessOf, others: OthersOf, minutes: documented.Minutes = _ALL
) -> Response:
    wanted, names = number_of(minutes, "minutes", MOST_MINUTES), access.visible(herder.connectors())
    gathered = others.answers()
    plotted, skipped = _together(metrics.series.together(names, wanted), gathered)
    latest: dict[str, Figures] = metrics.series.latest(names)
    for url, answer in gathered.answers.items():
        if url not in skipped:
            for name, figures in answer.get("connectors", {}).items():
                latest[name] = merged_figures(latest[name], figures) if name in latest else figures
    return json_answer({**_shown(plotted, skipped), "connectors": latest})


@router.get(
    "/connectors/{name:segment}/series",
    dependencies=[needs(Right.VIEW)],
    responses=documented.answers("The connector's last minutes.", ConnectorSeries),
)
def connector_series(
    name: str, herder: HerderOf, metrics: MetricsOf, others: OthersOf, minutes: documented.Minutes = _ALL
) -> Response:
    wanted = number_of(minutes, "minutes", MOST_MINUTES)
    herder.connector_info(name)
    plotted, skipped = _together(metrics.series.together([name], wanted), others.answers())
    return json_answer(_shown(plotted, skipped))


def _together(own: Plotted, gathered: Gathered) -> tuple[Plotted, Mapping[str, str]]:
    """Merge the other workers' steps into these; returns the workers left out, each with the reason."""
    found: list[Plotted] = []
    skipped = dict(gathered.skipped)
    for url, answer in gathered.answers.items():
        try:
            found.append(own.other(answer))
        except (ValueError, KeyError, TypeError) as error:
            skipped[url] = f"Its answer cannot be used: {error}"
    return own.with_(found), skipped


def _shown(plotted: Plotted, skipped: Mapping[str, str]) -> dict[str, Any]:
    return {"step_s": STEP_S, "until": plotted.until, "series": plotted.series(), "skipped": skipped}
