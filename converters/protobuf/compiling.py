"""Compiles a registry's .proto texts by protoc, in a process of its own.

A text comes from outside, so the compiler sees no file but the schema's own and the well-known ones, which lie in a
folder made for it, and its time, memory, input and output are bounded.

Decided: `grpc_tools.protoc` as a process, because a text may crash or hang the compiler, which is C++; loses: a third
of a second for each schema, once in a process.
"""

from __future__ import annotations

import base64
import errno
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar, cast

from google.protobuf.descriptor_pb2 import DESCRIPTOR, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from headrace.plugins.contracts import DataError, RetriableError

Described = TypeVar("Described", bound=Message)

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
"""Characters of the compiler's errors that are shown."""
_READ: Final = 64 << 10
"""Bytes of them that are read."""
_NAME_FAULTS: Final = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG)
_FAULT: Final = 3
"""The compiler's exit status for a text's fault; 1 is Python's, for a fault of the installation."""
LIMITS: Final = f"""
import resource, sys
def limit(kind, most, spare=0):
    hard = resource.getrlimit(kind)[1]
    last = most + spare if hard == resource.RLIM_INFINITY else min(most + spare, hard)
    resource.setrlimit(kind, (min(most, last), last))
limit(resource.RLIMIT_AS, {_MOST_MEMORY})
limit(resource.RLIMIT_CPU, {_MOST_CPU_S}, 2)
limit(resource.RLIMIT_FSIZE, {_LARGEST})
limit(resource.RLIMIT_CORE, 0)
"""
_CHILD: Final = f"""
from grpc_tools import protoc
{LIMITS}
sys.exit({_FAULT} if protoc.main(["protoc", *sys.argv[1:]]) else 0)
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
    try:
        found = json.loads(text) if text.startswith("{") else None  # no .proto text begins with a brace
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.keys() != {"schema", "files"}:
        return text, {}
    return found["schema"], found["files"]


def compiled(text: str) -> FileDescriptorSet:
    """The schema's file and all that it imports, each after its imports.

    `text`: as of `bundle`, or one file's. Errors: DataError; RetriableError if the machine does not run the compiler.
    """
    found = _made_of(text)
    if isinstance(found, str):
        raise DataError(found)
    return found


@lru_cache(maxsize=64)
def _made_of(text: str) -> FileDescriptorSet | str:
    """The compiler's result for a text, or the text's fault, which stays. Errors: RetriableError."""
    try:
        return _made(text)
    except DataError as error:
        return str(error)


def _made(text: str) -> FileDescriptorSet:
    if len(text) > _LARGEST:
        raise DataError(f"The Protobuf schema is larger than {_LARGEST >> 20} MiB")
    own, files = unbundled(text)
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-proto-") as folder:
            made: FileDescriptorSet = bare(FileDescriptorSet).FromString(_compiled_in(Path(folder), own, files))
    except OSError as error:  # of the machine: it says nothing of the records
        raise RetriableError(f"The compiler of a Protobuf schema cannot run now: {error}") from error
    if any(file.syntax == "editions" for file in made.file):
        raise DataError("The Protobuf schema has an edition; Headrace reads proto2 and proto3")
    return made


@cache
def bare(kind: type[Described]) -> type[Described]:
    """A class of descriptors that knows no options of other modules in this process: they are none of a schema's."""
    pool = DescriptorPool()
    pool.AddSerializedFile(DESCRIPTOR.serialized_pb)
    return cast("type[Described]", GetMessageClass(pool.FindMessageTypeByName(kind.DESCRIPTOR.full_name)))


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


def _compiled_in(folder: Path, own: str, files: Mapping[str, str]) -> bytes:
    root, given = folder / "in", FileDescriptorSet()
    root.mkdir()
    for name, found in {**files, MAIN: own}.items():
        if (descriptor := _descriptor(name, found)) is not None:
            given.file.append(descriptor)
        else:
            _write(root, name, found)
    for found in (own, *files.values(), *(f'"{name}"' for file in given.file for name in file.dependency)):
        _add_known(root, found)
    return _compile(root, given, folder)


def _write(root: Path, name: str, text: str) -> None:
    """Writes one file. Errors: DataError for a name that leaves the folder, or that the compiler would not find."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or str(path) != name or not name.isprintable():
        raise DataError(f"The Protobuf schema refers to a file that may not be named so: {name!r}")
    try:
        Path(root, name).parent.mkdir(parents=True, exist_ok=True)
        Path(root, name).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno not in _NAME_FAULTS:
            raise
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
    """Runs the compiler over the files in `root` and those that are `given`.

    Errors: DataError with what it says; RetriableError if the machine did not let it end; OSError.
    """
    included, out, told = resources.files("grpc_tools") / "_proto", folder / "out", folder / "errors"
    arguments = ["-I.", f"-I{included}", "--include_imports", f"--descriptor_set_out={out}", MAIN]
    if given.file:
        (folder / "given").write_bytes(given.SerializeToString())
        arguments.insert(0, f"--descriptor_set_in={folder / 'given'}")
    try:
        with told.open("wb") as errors:  # a file's size is limited, what a pipe brings is not
            done = subprocess.run(
                [sys.executable, "-I", "-c", _CHILD, *arguments],
                cwd=root,
                env={"LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=_LONGEST_S,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        # A text that needs too much work is ended before, by the limit of CPU time.
        raise RetriableError(f"The compiler of a Protobuf schema did not end within {_LONGEST_S} seconds") from error
    if done.returncode == -signal.SIGKILL:
        raise RetriableError("The compiler of a Protobuf schema was killed; check the machine's memory")
    if done.returncode == 1:
        raise RetriableError(f"The compiler of a Protobuf schema does not run: {_said(told)}")
    if done.returncode:
        raise DataError(f"The Protobuf schema cannot be compiled: {_said(told) or _ended(done.returncode)}")
    return out.read_bytes()


def _said(told: Path) -> str:
    """The beginning of the compiler's errors, without its warnings."""
    with told.open("rb") as errors:
        lines = errors.read(_READ).decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("WARNING: ", "W0")))[:_SHOWN]


def _ended(code: int) -> str:
    if code == -signal.SIGXCPU:
        return f"it took the compiler more than {_MOST_CPU_S} seconds"
    return f"the compiler ended with {code}"
