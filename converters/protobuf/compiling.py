"""Compiles a registry's .proto texts by protoc, in a process of its own.

A text comes from outside, so the compiler sees no file but the schema's own and the well-known ones, which lie in a
folder made for it, and its time, memory, input and output are bounded.

Decided: `grpc_tools.protoc` as a process, because a text may crash or hang the compiler, which is C++; loses: a third
of a second for each schema, once in a process.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from headrace.plugins.contracts import DataError

MAIN: Final = "schema.headrace.proto"
"""The name of a schema's own file; those that it refers to have the names of its references."""
_LONGEST_S: Final = 20
_MOST_MEMORY: Final = 1 << 30
_MOST_CPU_S: Final = 10
_LARGEST: Final = 2 << 20
"""Bytes of all texts, and of what the compiler makes of them."""
_NAME: Final = re.compile(r"""["']([\w/.-]+\.proto)["']""")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SHOWN: Final = 2_000
_CHILD: Final = f"""
import resource, sys
from grpc_tools import protoc
resource.setrlimit(resource.RLIMIT_AS, ({_MOST_MEMORY}, {_MOST_MEMORY}))
resource.setrlimit(resource.RLIMIT_CPU, ({_MOST_CPU_S}, {_MOST_CPU_S}))
resource.setrlimit(resource.RLIMIT_FSIZE, ({_LARGEST}, {_LARGEST}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.exit(protoc.main(["protoc", *sys.argv[1:]]))
"""


def bundle(text: str, referenced: Sequence[tuple[str, str]]) -> str:
    """One text of a schema and of those that it refers to, by the names of its imports.

    Errors: DataError if a name has two texts.
    """
    files: dict[str, str] = {}
    for name, found in referenced:
        if files.setdefault(name, found) != found:
            raise DataError(f"The schema's references give two different files for {name}")
    return json.dumps({"schema": text, "files": files})


def unbundled(text: str) -> tuple[str, Mapping[str, str]]:
    """The schema's own text, and those of its files by name."""
    if not text.startswith("{"):  # no .proto text begins with a brace
        return text, {}
    found = json.loads(text)
    return found["schema"], found["files"]


@lru_cache(maxsize=64)
def compiled(text: str) -> FileDescriptorSet:
    """The schema's file and all that it imports, each after its imports. Errors: DataError.

    `text`: as of `bundle`, or one file's.
    """
    own, files = unbundled(text)
    if len(text) > _LARGEST:
        raise DataError(f"The Protobuf schema is larger than {_LARGEST >> 20} MiB")
    with tempfile.TemporaryDirectory(prefix="headrace-proto-") as folder:
        root, given = Path(folder, "in"), FileDescriptorSet()
        root.mkdir()
        for name, found in {**files, MAIN: own}.items():
            if (descriptor := _descriptor(name, found)) is not None:
                given.file.append(descriptor)
            else:
                _write(root, name, found)
        for found in (own, *files.values(), *(f'"{name}"' for file in given.file for name in file.dependency)):
            _add_known(root, found)
        made = FileDescriptorSet.FromString(_compile(root, given, Path(folder)))
    if any(file.syntax == "editions" for file in made.file):
        raise DataError("The Protobuf schema has an edition; Headrace reads proto2 and proto3")
    return made


def _descriptor(name: str, text: str) -> FileDescriptorProto | None:
    """The file of a text that is a descriptor in base64, as some clients register them; None for a .proto text."""
    if not _BASE64.fullmatch(text.strip()):
        return None
    try:
        made = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
    made.name = name
    return made


def _write(root: Path, name: str, text: str) -> None:
    """Writes one file. Errors: DataError for a name that leaves the folder, or that the compiler would not find."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or str(path) != name or not name.isprintable():
        raise DataError(f"The Protobuf schema refers to a file that may not be named so: {name!r}")
    try:
        Path(root, name).parent.mkdir(parents=True, exist_ok=True)
        Path(root, name).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"The Protobuf schema refers to a file that may not be named so: {name!r}: {error}") from error


def _add_known(root: Path, text: str) -> None:
    """Writes the well-known files, beside the compiler's own, that a text may import."""
    for name in _NAME.findall(text):
        if name in _known() and not Path(root, name).exists():
            _write(root, name, _known()[name])
            _add_known(root, _known()[name])


@cache
def _known() -> Mapping[str, str]:
    """Google's types and Confluent's, by the names that texts import them by."""
    ours = resources.files("headrace.converters.protobuf") / "known" / "confluent"
    google = [file for file in resources.files("google.type").iterdir() if file.name.endswith(".proto")]
    return {f"google/type/{file.name}": file.read_text("utf-8") for file in google} | {
        "confluent/meta.proto": (ours / "meta.proto").read_text("utf-8"),
        "confluent/type/decimal.proto": (ours / "type" / "decimal.proto").read_text("utf-8"),
    }


def _compile(root: Path, given: FileDescriptorSet, folder: Path) -> bytes:
    """Runs the compiler over the files in `root` and those that are `given`. Errors: DataError with what it says."""
    included, out = resources.files("grpc_tools") / "_proto", folder / "out"
    arguments = ["-I.", f"-I{included}", "--include_imports", f"--descriptor_set_out={out}", MAIN]
    if given.file:
        (folder / "given").write_bytes(given.SerializeToString())
        arguments.insert(0, f"--descriptor_set_in={folder / 'given'}")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD, *arguments],
            cwd=root,
            env={"LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"The Protobuf schema took the compiler longer than {_LONGEST_S} seconds") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        said = "\n".join(line for line in lines if not line.startswith(("WARNING: ", "W0")))
        said = said[:_SHOWN] or f"it ended with {done.returncode}"
        raise DataError(f"The Protobuf schema cannot be compiled: {said}")
    return out.read_bytes()
