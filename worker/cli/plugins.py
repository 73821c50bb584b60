"""The command line of `headrace plugins`; each command imports its modules when it runs, as in `commands`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.worker.cli.exits import fail

if TYPE_CHECKING:
    from headrace.worker.cli.plugin_lock import Locked
    from headrace.worker.cli.plugin_sources import Outcome

plugins = typer.Typer(help="Lists, installs and removes plugins.", invoke_without_command=True)

Python = Annotated[
    str, typer.Option("--python", metavar="PYTHON", help="The interpreter of a tap or target.  [default: Headrace's]")
]
ForJava = Annotated[
    int,
    typer.Option(
        "--for-java",
        metavar="RELEASE",
        min=0,
        help="The release of the worker's Java.  [default: that of this machine]",
    ),
]
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
            metavar="[GROUP:ARTIFACT:VERSION|ARCHIVE|WHEEL|FILE|TAP|TARGET]",
            help="A Java plugin from a Maven repository, whose version may be `latest` or a range such as [3.0,4); a "
            "zip or tar with jars, or a wheel, from a path or URL; a .py file; a Singer tap or target from PyPI, such "
            "as tap-postgres==0.2.1. Without it, all that headrace-plugins.lock has.",
        ),
    ] = "",
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
    repositories: Annotated[
        list[str] | None,
        typer.Option(
            "--repository",
            metavar="URL",
            help="A Maven repository that is asked before Maven Central; may be given more than once.",
        ),
    ] = None,
    sha256: Annotated[str, typer.Option(metavar="HEX", help="The checksum of the archive, wheel or file.")] = "",
    sha512: Annotated[str, typer.Option(metavar="HEX", help="The same by SHA-512.")] = "",
    python: Python = "",
    for_java: ForJava = 0,
) -> None:
    """Put a plugin and what it needs onto plugin.path; a worker finds it at its next start.

    A Java plugin gets a folder of its own, as does a tap or target. What Python plugins need, files by a block
    `# /// script`, is installed for all of them together, so that two that contradict each other are told.
    """
    from headrace.worker.cli.locked_plugins import install_locked
    from headrace.worker.cli.plugin_sources import Asked, install
    from headrace.worker.machine.plugin_files import Checksum

    folder = _chosen(plugin_path)
    with _told():
        if sha256 and sha512:
            fail(2, "say one of --sha256 and --sha512")
        checksum = Checksum.parse("sha256" if sha256 else "sha512", sha256 or sha512) if sha256 or sha512 else None
        if what:
            java = _java(for_java)
            asked = Asked(what, tuple(beside or ()), tuple(repositories or ()), checksum, python, java)
            _tell(install(asked, folder), java)
            return
        if beside or repositories or checksum:
            fail(2, "options such as --with go with the plugin that they are for; say what to install")
        java = _java(for_java)
        for outcome in install_locked(folder, java, python):
            _tell(outcome, java)


@plugins.command("upgrade")
def plugins_upgrade(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A plugin, with or without its version.")] = "",
    plugin_path: PluginPath = None,
    python: Python = "",
    for_java: ForJava = 0,
) -> None:
    """Bring a plugin, or all, to the latest version within what was asked for, such as [3.0,4) or latest."""
    from headrace.worker.cli.plugin_sources import upgrade

    folder, java = _chosen(plugin_path), _java(for_java)
    with _told():
        for said, outcome in upgrade(name, folder, java, python):
            typer.echo(said)
            if outcome is not None:
                _tell_need(outcome.path, java)


@plugins.command("list")
def plugins_list(plugin_path: PluginPath = None, for_java: ForJava = 0) -> None:
    """List what was installed, with its classes and the lock file's entry; `headrace plugins` lists all plugins."""
    from headrace.worker.cli import plugin_install, plugin_lock

    folder, java, too_new = _chosen(plugin_path), _java(for_java), False
    with _told():
        locked = {one.name: one for one in plugin_lock.read(folder)}
        for plugin in plugin_install.installed(folder):
            typer.echo(f"{plugin.name}\t{plugin.label}")
            if plugin.name in locked:
                _tell_locked(locked.pop(plugin.name))
            too_new |= _tell_need(plugin.folder, java)
            _tell_classes(plugin.folder)
        for one in locked.values():
            is_there = (folder / one.name).is_file()
            typer.echo(f"{one.name}\t{one.source}{'' if is_there else ' (locked, not installed)'}")
            _tell_locked(one)
    if too_new:
        fail(1, f"Java {java} cannot run all of them; install a newer JDK or JRE and set JAVA_HOME to it")


@plugins.command("remove")
def plugins_remove(name: Annotated[str, typer.Argument(metavar="NAME")], plugin_path: PluginPath = None) -> None:
    """Remove a plugin that was installed; a worker that runs it needs a restart."""
    from headrace.worker.cli.plugin_sources import remove

    with _told():
        typer.echo(f"{remove(name, _chosen(plugin_path))} was removed")


@contextmanager
def _told() -> Iterator[None]:
    """End the command with an error's text, and the exit code for its kind."""
    from headrace.plugins.interop.jvm.jars import Unavailable
    from headrace.worker.cli import pip_packages, plugin_install, plugin_lock, python_plugins, singer_install
    from headrace.worker.cli.unfinished import ended_orderly
    from headrace.worker.machine.maven import UnknownArtifactError
    from headrace.worker.machine.plugin_files import WrongChecksumError
    from headrace.worker.machine.unpacking import UnsafeArchiveError

    try:
        with ended_orderly():
            yield
    except (
        UnknownArtifactError,
        UnsafeArchiveError,
        WrongChecksumError,
        plugin_install.OlderJavaError,
        pip_packages.PipFailedError,
        singer_install.InstallationFailedError,
    ) as error:
        fail(1, str(error))
    except (
        ValueError,
        plugin_install.NotInstalledError,
        plugin_install.TargetExistsError,
        plugin_lock.BrokenLockError,
        python_plugins.UnfitPluginError,
    ) as error:
        fail(2, str(error))
    except (Unavailable, OSError) as error:
        fail(3, str(error))


def _java(given: int) -> int | None:
    """The release of the worker's Java; None if there is none here."""
    from headrace.plugins.interop.jvm.jars import Unavailable, find_java

    if given:
        return given
    try:
        return find_java(1).version
    except Unavailable:
        return None


def _tell(outcome: Outcome, java: int | None) -> None:
    from headrace.worker.cli import plugin_install

    typer.echo(f"{outcome.label} {'was installed' if outcome.is_new else 'is installed already'} in {outcome.path}")
    if outcome.packages:
        typer.echo(f"all Python plugins of {outcome.path.parent} need: {', '.join(outcome.packages)}")
    for note in outcome.notes:
        typer.echo(f"headrace: {note}", err=True)
    plugin = plugin_install.recorded(outcome.path)
    for other in plugin_install.other_versions(plugin) if plugin else ():
        typer.echo(f"headrace: {other.name} is installed, too; the newer of both is used", err=True)
    if outcome.path.is_dir():
        _tell_need(outcome.path, java)
        _tell_classes(outcome.path)


def _tell_need(folder: Path, java: int | None) -> bool:
    """Say what the plugin needs of the JVM; True if that is not there."""
    from headrace.worker.cli.plugin_install import needed_java

    need = needed_java(folder)
    if need is None:
        return False
    too_new = java is not None and need.release > java
    remedy = f", and the worker's is {java}: install a JDK or JRE {need.release} or newer" if too_new else ""
    typer.echo(f"  needs Java {need.release} (by {need.jar}){remedy}")
    return too_new


def _tell_locked(one: Locked) -> None:
    checksum = f", checksum {one.checksum[:12]}…" if one.checksum else ""
    typer.echo(f"  asked for {one.asked}, version {one.version or 'unknown'}{checksum}")


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
