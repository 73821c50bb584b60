"""Apache's command `connect-plugin-path`: lists the plugins of `plugin.path`, and writes their manifests.

It has Apache's arguments, columns and exit codes: 1 wrong arguments, 2 unusable input, 3 anything else, and, as in
Apache's, a missing element of `--plugin-path`. Java plugins are read without a JVM: `isLoadable` says that a class
exists and can be made, not that its constructor succeeds. Python plugins are listed, too; their entry points are their
manifests.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from headrace.config.plugin_path.archives import BrokenArchiveError
from headrace.config.plugin_path.locations import locations_in
from headrace.config.plugin_path.scanning import DiscoveryMode, LocationScan, scan_location
from headrace.config.plugin_path.sync import ManifestChange, NotWritableError, changes, write
from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.plugins.interop.discovery import KINDS, BrokenPluginError, Plugins

_COLUMNS: Final = (
    *("pluginName", "firstAlias", "secondAlias", "pluginVersion", "pluginType", "isLoadable", "hasManifest"),
    "pluginLocation",
)
_UNDEFINED: Final = "undefined"
_NO_ALIAS: Final = "N/A"
_TYPE_NAMES: Final = {"config_provider": "configprovider"}
_SUFFIXES: Final = {**KINDS, "rest_extension": "ConnectRestExtension"}
_LAST_SUFFIX: Final = "ConnectorClientConfigOverridePolicy"


class _UnusableError(Exception):
    """The input cannot be used; the text says why."""

    def __init__(self, why: str, code: int = 2) -> None:
        super().__init__(why)
        self.code = code


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def main() -> None:
    """Run the `connect-plugin-path` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; returns the exit code."""
    try:
        asked = _parser().parse_args(arguments)
        if not (asked.plugin_location or asked.plugin_path or asked.worker_config):
            _parser().error("Must specify at least one --plugin-location, --plugin-path, or --worker-config")
        _carry_out(asked)
    except SystemExit as ended:
        return int(ended.code or 0)
    except _UnusableError as error:
        print(error, file=sys.stderr)
        return error.code
    except Exception:
        traceback.print_exc()
        return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Arguments(prog="connect-plugin-path", description="Manage plugins on the Connect plugin.path")
    commands = parser.add_subparsers(dest="subcommand", required=True, metavar="{list,sync-manifests}")
    listing = commands.add_parser("list", help="List the plugins of the locations.")
    syncing = commands.add_parser(
        "sync-manifests", help="Write the manifests that plugin.discovery=service_load needs."
    )
    for command in (listing, syncing):
        where = command.add_argument_group("plugin providers")
        for name, text in (
            ("--plugin-location", "A plugin: a jar or a folder."),
            ("--plugin-path", "Folders of plugins, with commas between them."),
            ("--worker-config", "The properties of a worker, for their plugin.path."),
        ):
            where.add_argument(name, action="append", default=[], help=text)
    syncing.add_argument("--dry-run", action="store_true", help="Say what would be changed, and change nothing.")
    syncing.add_argument("--keep-not-found", action="store_true", help="Keep manifests whose classes are not there.")
    return parser


def _carry_out(asked: argparse.Namespace) -> None:
    elements = _elements(asked.worker_config, asked.plugin_path)
    locations = _locations(elements, asked.plugin_location)
    if asked.subcommand == "list":
        _list(locations, [*elements, *asked.plugin_location])
    else:
        _sync(locations, dry_run=asked.dry_run, keep_not_found=asked.keep_not_found)


def _elements(worker_configs: Sequence[str], plugin_paths: Sequence[str]) -> list[str]:
    paths = list(plugin_paths)
    for file in worker_configs:
        try:
            paths.append(read_properties(file).get("plugin.path", ""))
        except (OSError, ConfigError) as error:
            raise _UnusableError(f"Unable to read worker config at {file}: {error}") from error
    return [element.strip() for path in paths for element in path.split(",") if element.strip()]


def _locations(elements: Sequence[str], given: Sequence[str]) -> list[Path]:
    found: dict[Path, None] = {}
    for element in elements:
        try:
            found.update(dict.fromkeys(locations_in(element)))
        except OSError as error:
            raise _UnusableError(f"Unable to parse plugin path {element}: {error.strerror}", code=3) from error
    for location in map(Path, given):
        if not location.exists():
            raise _UnusableError(f"Specified location {location} does not exist")
        found[location] = None
    return list(found)


def _scans(locations: Sequence[Path]) -> Iterator[LocationScan]:
    # As Apache's command, it looks at both, whatever the worker's plugin.discovery says.
    return (found for one in locations if (found := scan_location(one, DiscoveryMode.HYBRID_WARN)))


def _list(locations: Sequence[Path], python_elements: Sequence[str]) -> None:
    print(*_COLUMNS, sep="\t")
    rows = [row for found in _scans(locations) for row in _rows(found)] + list(_python_rows(python_elements))
    for row in rows:
        print(*(str(value).lower() if isinstance(value, bool) else value for value in row), sep="\t")
    print(f"\nTotal plugins:      \t{len(rows)}")
    print(f"Loadable plugins:   \t{sum(row[5] is True for row in rows)}")
    print(f"Compatible plugins: \t{sum(row[5] is True and row[6] is True for row in rows)}")


def _rows(found: LocationScan) -> Iterator[tuple[str | bool, ...]]:
    loadable = {(plugin.kind, plugin.class_name): plugin for plugin in found.plugins}
    for plugin in found.plugins:
        row = _row(plugin.class_name, plugin.kind, plugin.version, loadable=True)
        yield (*row, found.has_manifest(plugin), str(found.location))
    for kind, name in sorted(found.manifests.keys() - loadable.keys()):
        yield (name, _NO_ALIAS, _NO_ALIAS, _UNDEFINED, _type_name(kind), False, True, str(found.location))


def _python_rows(elements: Sequence[str]) -> Iterator[tuple[str | bool, ...]]:
    plugins = Plugins.discover(elements)
    for plugin in plugins.of_kind(*KINDS):
        if plugin.location in plugins.paths:
            try:
                plugin.load()
            except BrokenPluginError:
                yield (plugin.class_name, _NO_ALIAS, _NO_ALIAS, _UNDEFINED, plugin.kind, False, True, plugin.location)
            else:
                yield (*_row(plugin.class_name, plugin.kind, plugin.version, loadable=True), True, plugin.location)


def _row(class_name: str, kind: str, version: str | None, *, loadable: bool) -> tuple[str | bool, ...]:
    simple = class_name.rpartition(".")[2].rpartition("$")[2]
    at = simple.rfind(_SUFFIXES.get(kind, _LAST_SUFFIX))
    second = simple[:at] if at > 0 else _NO_ALIAS
    return (class_name, simple, second, version or _UNDEFINED, _type_name(kind), loadable)


def _type_name(kind: str) -> str:
    return _TYPE_NAMES.get(kind, kind)


def _sync(locations: Sequence[Path], *, dry_run: bool, keep_not_found: bool) -> None:
    if dry_run:
        print("Dry run started: No changes will be committed.")
    print("Scanning for plugins...")
    try:
        planned = [one for found in _scans(locations) for one in changes(found, keep_not_found=keep_not_found)]
    except (NotWritableError, BrokenArchiveError) as error:
        raise _UnusableError(str(error)) from error
    for change in planned:
        _tell(change, dry_run=dry_run)
    if not planned:
        print("No changes required.")
    elif dry_run:
        print("Dry run passed: All above changes can be committed to disk if re-run with dry run disabled.")
    else:
        print("Writing changes to plugins...")
        _write(planned)
        print("All loadable plugins have accurate ServiceLoader manifests.")


def _tell(change: ManifestChange, *, dry_run: bool) -> None:
    heading = f"{'Dry Run ' if dry_run else ''}Sync\t{change.path}"
    print(f"{heading} Add {len(change.added)} Remove {len(change.removed)}")
    for word, names in (("Add", change.added), ("Remove", change.removed)):
        for name in names:
            print(f"\t{word}\t{name}")


def _write(planned: Sequence[ManifestChange]) -> None:
    for change in planned:
        try:
            write(change)
        except (OSError, zipfile.BadZipFile) as error:
            raise _UnusableError(
                f"{change.path} could not be changed ({error}); it is as it was, what stands above it was changed"
            ) from error
