"""Rules about files, beside those about what stands in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.config.lint.files import ConfigFile, FileKind
from headrace.config.lint.finding import Rule, Said, Severity, rule


@dataclass(frozen=True)
class FileView:
    """A file among those that are judged together."""

    file: ConfigFile
    before: Sequence[ConfigFile] = ()
    """The files that were read before."""
    is_found: bool = False
    """True if it was found in a folder, and not named."""


@rule("refused-file", Severity.ERROR, "A file that a worker refuses: no JSON, no name, or two names that differ.")
def refused_file(view: FileView) -> Iterator[Said]:
    """The faults that keep a worker from reading the file."""
    if view.file.kind is FileKind.OTHER and view.is_found:
        return
    for fault in view.file.faults:
        yield Said(None, fault.message, fault.remedy)
    if view.file.kind is FileKind.OTHER and not view.file.faults:
        advice = "A connector has connector.class, a worker bootstrap.servers, MirrorMaker clusters."
        yield Said(None, "The file is neither a connector's, nor a worker's, nor MirrorMaker's.", advice)


@rule("passed-over-file", Severity.NOTE, "A file in a folder that is no connector's, worker's or MirrorMaker's.")
def passed_over_file(view: FileView) -> Iterator[Said]:
    """Other files that were found in a folder."""
    if view.file.kind is FileKind.OTHER and view.is_found:
        why = view.file.faults[0].message if view.file.faults else "It has none of their settings."
        yield Said(None, f"This file was passed over: {why}", "Name it itself if it is to be judged.")


@rule("repeated-setting", Severity.WARNING, "A setting that a file has more than once; the last one counts.")
def repeated_setting(view: FileView) -> Iterator[Said]:
    """Settings that the file has more than once."""
    for key in dict.fromkeys(view.file.repeated):
        yield Said(key, "The file has this setting more than once, and only the last one counts.", "Remove the others.")


@rule("duplicate-name", Severity.ERROR, "Two files for one connector.")
def duplicate_name(view: FileView) -> Iterator[Said]:
    """A connector's name that an earlier file has, too."""
    name = view.file.name
    if view.file.kind is not FileKind.CONNECTOR or not name:
        return
    for other in view.before:
        if other.kind is FileKind.CONNECTOR and other.name == name:
            yield Said("name", f"{other.path} has a connector {name}, too.", "Give each connector a name of its own.")


FILE_RULES: Final[tuple[Rule[FileView], ...]] = (refused_file, passed_over_file, repeated_setting, duplicate_name)
