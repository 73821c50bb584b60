"""The command line of `headrace plugins`; each command imports its modules when it runs, as in `commands`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.worker.cli.exits import fail

plugins = typer.Typer(help="Java plugins from Maven Central, and Singer's taps and targets.", no_args_is_help=True)

PluginPath = Annotated[
    Path | None,
    typer.Option(
        "--plugin-path", metavar="DIR", help="An element of the worker's plugin.path.  [default: CONNECT_PLUGIN_PATH's]"
    ),
]


@plugins.command("install")
def plugins_install(
    artifact: Annotated[
        str,
        typer.Argument(
            metavar="GROUP:ARTIFACT:VERSION|TAP|TARGET",
            help="A Java plugin from Maven Central; a Singer tap or target from PyPI, such as tap-postgres==0.2.1.",
        ),
    ],
    plugin_path: PluginPath = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="GROUP:ARTIFACT:VERSION|PACKAGE",
            help="Put this into the plugin's folder, too, with what it needs: a JDBC driver, a script language, a "
            "component, a package of a tap's; may be given more than once.",
        ),
    ] = None,
    python: Annotated[
        str, typer.Option(metavar="PYTHON", help="The interpreter of a tap or target.  [default: Headrace's]")
    ] = "",
) -> None:
    """Fetch a plugin and what it needs into a folder of its own; a worker finds it at its next start."""
    from headrace.worker.cli import singer_install

    if singer_install.is_singer(artifact):
        _install_singer(artifact, _chosen(plugin_path), beside or (), python)
    else:
        _install_java(artifact, _chosen(plugin_path), beside or ())


def _install_singer(requirement: str, folder: Path, beside: Sequence[str], python: str) -> None:
    from headrace.worker.cli import plugin_install, singer_install

    try:
        plugin, new = singer_install.install(requirement, folder, beside, python)
    except plugin_install.TargetExistsError as error:
        fail(2, str(error))
    except singer_install.InstallationFailedError as error:
        fail(1, str(error))
    except OSError as error:
        fail(3, str(error))
    typer.echo(f"{plugin.label} {'was installed' if new else 'is installed already'} in {plugin.folder}")


def _install_java(artifact: str, folder: Path, beside: Sequence[str]) -> None:
    from headrace.worker.cli import plugin_install
    from headrace.worker.machine.jars import Unavailable
    from headrace.worker.machine.plugin_archives import Coordinates, UnknownArtifactError

    try:
        wanted, *more = map(Coordinates.parse, (artifact, *beside))
        plugin, new = plugin_install.install(wanted, folder, more)
    except (ValueError, plugin_install.TargetExistsError) as error:
        fail(2, str(error))
    except UnknownArtifactError as error:
        fail(1, str(error))
    except (Unavailable, OSError) as error:
        fail(3, str(error))
    typer.echo(f"{plugin.label} {'was installed' if new else 'is installed already'} in {plugin.folder}")
    for other in plugin_install.other_versions(plugin):
        typer.echo(f"headrace: {other.name} is installed, too; the newer of both is used", err=True)
    _tell_classes(plugin.folder)


@plugins.command("list")
def plugins_list(plugin_path: PluginPath = None) -> None:
    """List what was installed, with its classes; `connect-plugin-path list` lists all Java plugins."""
    from headrace.worker.cli import plugin_install

    try:
        for plugin in plugin_install.installed(_chosen(plugin_path)):
            typer.echo(f"{plugin.name}\t{plugin.label}")
            _tell_classes(plugin.folder)
    except OSError as error:
        fail(3, str(error))


@plugins.command("remove")
def plugins_remove(name: Annotated[str, typer.Argument(metavar="NAME")], plugin_path: PluginPath = None) -> None:
    """Remove a plugin that was installed; a worker that runs it needs a restart."""
    from headrace.worker.cli import plugin_install

    try:
        typer.echo(f"{plugin_install.remove(name, _chosen(plugin_path)).folder} was removed")
    except plugin_install.NotInstalledError as error:
        fail(2, str(error))
    except OSError as error:
        fail(3, str(error))


def _chosen(plugin_path: Path | None) -> Path:
    import os

    if plugin_path is not None:
        return plugin_path
    first = os.environ.get("CONNECT_PLUGIN_PATH", "").partition(",")[0].strip()
    if not first:
        fail(2, "say where: --plugin-path DIR, a folder that the worker's plugin.path names")
    return Path(first)


def _tell_classes(folder: Path) -> None:
    from headrace.config.plugin_path import scan_location

    found = scan_location(folder)
    for plugin in found.plugins if found else ():
        typer.echo(f"  {plugin.kind}\t{plugin.class_name}\t{plugin.version or 'undefined'}")
