"""Makes jars and class files for tests, without a JDK."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

SOURCE: Final = "org.apache.kafka.connect.source.SourceConnector"
SINK: Final = "org.apache.kafka.connect.sink.SinkConnector"
CONVERTER: Final = "org.apache.kafka.connect.storage.Converter"
HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.HeaderConverter"
PREDICATE: Final = "org.apache.kafka.connect.transforms.predicates.Predicate"
TRANSFORMATION: Final = "org.apache.kafka.connect.transforms.Transformation"
PROVIDER: Final = "org.apache.kafka.common.config.provider.ConfigProvider"
PUBLIC, ABSTRACT, INTERFACE = 0x0001, 0x0400, 0x0200


def class_file(
    name: str,
    extends: str = "java.lang.Object",
    implements: Sequence[str] = (),
    flags: int = PUBLIC,
    constructor: str | None = "()V",
    java: int = 17,
) -> bytes:
    """The bytes of a class with these supertypes, and with one public constructor of this shape, for this Java."""
    pool: list[bytes] = [b"\x05" + struct.pack(">q", 7), b""]  # a long takes two places of the pool

    def add(constant: bytes) -> int:
        pool.append(constant)
        return len(pool)

    def text(value: str) -> int:
        return add(b"\x01" + struct.pack(">H", len(value.encode())) + value.encode())

    def klass(value: str) -> int:
        return add(b"\x07" + struct.pack(">H", text(value.replace(".", "/"))))

    this, parent, interfaces = klass(name), klass(extends), [klass(one) for one in implements]
    marker = text("Marker")
    attribute = struct.pack(">HI", marker, 3) + b"xyz"
    field = struct.pack(">HHHH", 0, text("count"), text("I"), 1) + attribute
    methods = [struct.pack(">HHHH", 1, text("run"), text("()V"), 1) + attribute]
    if constructor is not None:
        methods.append(struct.pack(">HHHH", 1, text("<init>"), text(constructor), 0))
    return (
        b"\xca\xfe\xba\xbe"
        + struct.pack(">HHH", 0, 44 + java, len(pool) + 1)
        + b"".join(pool)
        + struct.pack(">HHHH", flags, this, parent, len(interfaces))
        + b"".join(struct.pack(">H", one) for one in interfaces)
        + struct.pack(">H", 1)
        + field
        + struct.pack(">H", len(methods))
        + b"".join(methods)
        + struct.pack(">H", 0)
    )


def entry(class_name: str) -> str:
    """The name of a class's entry in a jar."""
    return f"{class_name.replace('.', '/')}.class"


def jar(
    path: Path,
    classes: Mapping[str, bytes] | None = None,
    services: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """A jar with these classes by name, these manifests by their type, and these other files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in (classes or {}).items():
            made.writestr(entry(name), data)
        for java_type, content in (services or {}).items():
            made.writestr(f"META-INF/services/{java_type}", content)
        for name, content in (files or {}).items():
            made.writestr(name, content)
    return path
