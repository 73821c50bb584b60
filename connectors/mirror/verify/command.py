"""The command line of `headrace mirror`; a command's imports happen when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Replication between clusters.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Replication between clusters."""


@app.command("verify")
def verify(
    source: Annotated[str, typer.Argument(metavar="A", help="The alias of the cluster that is copied.")],
    target: Annotated[str, typer.Argument(metavar="B", help="The alias of the cluster that has the copy.")],
    properties: Annotated[
        Path | None, typer.Option(metavar="FILE", help="MirrorMaker's file: both clusters, and the flow A->B.")
    ] = None,
    source_bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Brokers of A.")] = None,
    target_bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Brokers of B.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the connectors, over the file's."),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this topic of A.  [default: those replicated]")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this consumer group.  [default: all]")
    ] = None,
    hash_: Annotated[bool, typer.Option("--hash", help="Compare all records that both have.")] = False,
    last: Annotated[int | None, typer.Option(min=1, help="Compare the last so many offsets that are copied.")] = None,
    from_offset: Annotated[int | None, typer.Option(min=0, help="Compare from this offset of A on.")] = None,
    to_offset: Annotated[int | None, typer.Option(min=0, help="Compare up to this offset of A.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Compare from this time on: 2026-01-31T12:00:00Z, or 15m, 2h, 7d."),
    ] = None,
    max_lag: Annotated[int, typer.Option(min=0, help="So many records may wait in a partition.")] = 0,
    offsets_topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the workers, at B.  [default: mm2-offsets.A.internal]")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="A cluster has to answer within.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Say how far B's copy of A is, whether it is equal, and where A's consumer groups would go on in B.

    Exit code: 0 equal and within --max-lag, 1 something differs, 2 wrong use, 3 a cluster cannot be reached.
    Without --hash, --last, --from-offset, --to-offset or --since no records are compared but those at the ends.
    """
    from headrace.connectors.mirror.verify import run
    from headrace.connectors.mirror.verify.request import Asked, UsageError

    try:
        asked = Asked(
            topics=topic or [],
            groups=group or [],
            whole=hash_,
            last=last,
            from_offset=from_offset,
            to_offset=to_offset,
            since=since,
            max_lag=max_lag,
            offsets_topic=offsets_topic,
            timeout_s=timeout,
        )
    except UsageError as e:
        raise typer.BadParameter(str(e)) from e
    servers = {"source": source_bootstrap, "target": target_bootstrap}
    raise typer.Exit(run.verify(source, target, properties, servers, settings or [], asked, as_json))
