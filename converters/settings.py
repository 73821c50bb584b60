"""The setting of every converter."""

from __future__ import annotations

from typing import Final

from headrace.config.settings import REQUIRED, Importance, Setting, Type
from headrace.config.validators import OneOf

CONVERTER_TYPE: Final = Setting(
    "converter.type", Type.STRING, REQUIRED, OneOf("key", "value", "header"), Importance.LOW, "What it converts."
)
