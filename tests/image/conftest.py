"""The image, built or given, and what its workers are told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.base_image import ROOT, make_base
from tests.image.container import Container


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the image; HEADRACE_TEST_IMAGE names one of buildah's storage that is there already."""
    if given := os.environ.get("HEADRACE_TEST_IMAGE"):
        return given
    make_base(tmp_path_factory.mktemp("base"))
    env = {**os.environ, "BUILDAH_ISOLATION": os.environ.get("BUILDAH_ISOLATION", "chroot")}
    build = ["buildah", "bud", "--layers", "--format", "docker", "--pull-never", "--tag", "headrace-test", "."]
    subprocess.run(build, cwd=ROOT, env=env, check=True, stdout=sys.stderr)
    return "localhost/headrace-test"


@pytest.fixture
def container(image: str, tmp_path: Path) -> Iterator[Container]:
    """A container of the image's own user."""
    made = Container(image, tmp_path / "shared")
    yield made
    made.remove()
