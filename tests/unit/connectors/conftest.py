"""Answers of Apache's connectors, as recorded from the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parents[2] / "compat" / "vectors" / "plugin_configs.json"


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    """Every plugin's settings."""
    answers: dict[str, Any] = json.loads(VECTORS.read_text())
    return answers
