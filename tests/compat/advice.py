"""Sentences that Headrace adds to Apache's; taken away where the two are compared."""

from __future__ import annotations

import re
from typing import Final

_CLASSES: Final = re.compile(r'( Did you mean [^"\n]*?\?)? There are: [^"\n]*')
_NOT_JSON: Final = re.compile(r"(?s)(failed due to serialization error: ).*")


def without_advice(text: str) -> str:
    """The text without the classes that there are, and without why a document cannot be read."""
    return _NOT_JSON.sub(r"\1", _CLASSES.sub("", text))
