"""The schemas that the setting `quickstart` names.

Names, fields, types, keys, ranges and steps are those that users of these names expect; what the options say is
Headrace's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.connectors.datagen.quickstarts import business, shop, web
from headrace.connectors.datagen.quickstarts.declaring import Quickstart

QUICKSTARTS: Final[Mapping[str, Quickstart]] = {**web.QUICKSTARTS, **shop.QUICKSTARTS, **business.QUICKSTARTS}

__all__ = ["QUICKSTARTS", "Quickstart"]
