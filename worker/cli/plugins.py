"""The command line of `headrace plugins`; each command imports its modules when it runs, as in `commands`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.worker.cli.exits import fail

plugins = typer.Typer(help="Lists, installs and removes plugins.", invoke_without_command=True)

PluginPath = Annotated[
    Path | None,
    typer.Option(
        "--plugin-path", metavar="DIR", help="An element of the worker's plugin.path.  [default: CONNECT_PLUGIN_PATH's]"
    ),
]


@plugins.callback()
def plugins_listed(
    context: typer.Context,
    plugin_path: Annotated[
        str | None,
        typer.Option(
            "--plugin-path", metavar="DIR,…", help="The worker's plugin.path.  [default: CONNECT_PLUGIN_PATH's]"
        ),
    ] = None,
    with_shipped: Annotated[bool, typer.Option("--all", help="List those that come with Headrace, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """List what a worker finds, where and in which version, and what it passes over and why; install and remove."""
    if context.invoked_subcommand is None:
        _list(plugin_path, with_shipped, as_json)
    elif plugin_path is not None or with_shipped or as_json:
        fail(2, f"write options after the command: `headrace plugins {context.invoked_subcommand} --plugin-path …`")


@plugins.command("install")
def plugins_install(
    what: Annotated[
        str,
        typer.Argument(
            metavar="GROUP:ARTIFACT:VERSION|FILE|TAP|TARGET",
            help="A Java plugin from Maven Central; a .py file or a wheel; a Singer tap or target from PyPI, such as "
            "tap-postgres==0.2.1.",
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
    """Put a plugin and what it needs onto plugin.path; a worker finds it at its next start.

    A Java plugin gets a folder of its own, as does a tap or target. What Python plugins need, files by a block
    `# /// script`, is installed for all of them together, so that two that contradict each other are told.
    """
    from headrace.worker.cli import singer_install

    if Path(what).exists() or what.endswith((".py", ".whl")):
        if beside:
            fail(2, "--with is for Java plugins, taps and targets; a Python plugin names what it needs itself")
        _install_python(Path(what), _chosen(plugin_path))
    elif singer_install.is_singer(what):
        _install_singer(what, _chosen(plugin_path), beside or (), python)
    else:
        _install_java(what, _chosen(plugin_path), beside or ())


def _install_python(what: Path, folder: Path) -> None:
    from headrace.plugins.interop.jvm.jars import Unavailable
    from headrace.worker.cli import python_plugins

    try:
        target, packages = python_plugins.install(what, folder)
    except python_plugins.UnfitPluginError as error:
        fail(2, str(error))
    except python_plugins.PipFailedError as error:
        fail(1, str(error))
    except (Unavailable, OSError) as error:
        fail(3, str(error))
    typer.echo(f"{target} is installed")
    if packages:
        typer.echo(f"all Python plugins of {folder} need: {', '.join(packages)}")


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
    from headrace.plugins.interop.jvm.jars import Unavailable
    from headrace.worker.cli import plugin_install
    from headrace.worker.machine.maven import Coordinates, UnknownArtifactError

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
    """List what was installed from Maven Central, with its classes; `headrace plugins` lists all plugins."""
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
    from headrace.worker.cli import plugin_install, python_plugins

    folder = _chosen(plugin_path)
    try:
        gone = python_plugins.remove(name, folder) or plugin_install.remove(name, folder).folder
        typer.echo(f"{gone} was removed")
    except plugin_install.NotInstalledError as error:
        fail(2, str(error))
    except OSError as error:
        fail(3, str(error))


def _list(plugin_path: str | None, with_shipped: bool, as_json: bool) -> None:
    import json
    import os
    from dataclasses import asdict
    from itertools import groupby

    from headrace.worker.cli.plugin_listing import listing

    elements = plugin_path if plugin_path is not None else os.environ.get("CONNECT_PLUGIN_PATH", "")
    found = listing([element.strip() for element in elements.split(",") if element.strip()], with_shipped)
    if as_json:
        typer.echo(json.dumps(asdict(found), ensure_ascii=False))
        return
    in_place = sorted(found.plugins, key=lambda plugin: plugin.location)
    for location, those in groupby(in_place, key=lambda plugin: plugin.location):
        typer.echo(location)
        for plugin in those:
            typer.echo(f"  {plugin.kind}\t{plugin.class_name}\t{plugin.version}")
    if found.shipped:
        typer.echo(f"{found.shipped} come with Headrace; --all lists them")
    if found.passed_over:
        typer.echo("\nPassed over:")
    for line in found.passed_over:
        typer.echo(f"  {line}")


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
