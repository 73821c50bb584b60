"""Confluent's Filter: keeps or leaves out the records that a JSON path matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import functions as F

from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import Check, OneOf
from headrace.plugins.contracts import Transform
from headrace.plugins.records import Records
from headrace.plugins.transforms.json_path import parsed as parsed_path
from headrace.plugins.transforms.json_path import path_problem
from headrace.plugins.transforms.json_path_columns import UnfitError, matches

CONFLUENT_VERSION: Final = "1.6.0"
"""Version of Confluent's transforms whose documentation these follow."""

_CONDITION: Final = "filter.condition"
_INCLUDE: Final = "include"
_EXCLUDE: Final = "exclude"
_FAIL: Final = "fail"


class ConditionFilter(Transform):
    """Leaves out records by a condition on their key or value.

    Decided: `filter.type` is required, because no default is documented and the wrong one would keep what is to go;
    loses: configs without it, which its documentation does not have either.
    """

    is_key: ClassVar[bool]
    settings: ClassVar[Settings] = Settings(
        Setting(
            _CONDITION,
            Type.STRING,
            REQUIRED,
            Check(path_problem, "a JSON path, such as $[?(@.type == 'order')]"),
            Importance.HIGH,
            "The JSON path that matches a record if it leads to something.",
        ),
        Setting(
            "filter.type",
            Type.STRING,
            REQUIRED,
            OneOf(_INCLUDE, _EXCLUDE),
            Importance.HIGH,
            "include: only the records that match stay. exclude: they are left out.",
        ),
        Setting(
            "missing.or.null.behavior",
            Type.STRING,
            _FAIL,
            OneOf(_FAIL, _INCLUDE, _EXCLUDE),
            Importance.MEDIUM,
            "What becomes of a record without a field that the path names outside of [?()]: it fails, stays (include) "
            "or is left out (exclude).",
        ),
    )
    version: ClassVar[str] = CONFLUENT_VERSION

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._condition: str = parsed[_CONDITION]
        self._path = parsed_path(self._condition)
        self._includes: bool = parsed["filter.type"] == _INCLUDE
        self._missing: str = parsed["missing.or.null.behavior"]

    def apply(self, records: Records) -> Records:
        """Leave records out. Errors: ConfigError if Java refuses a regular expression in the condition."""
        side, schemas = ("key", records.keys) if self.is_key else ("value", records.values)
        found, unfit = [], []
        for number, schema in enumerate(schemas):
            rows = F.col(f"{side}_schema") == number
            value = records.key(number) if self.is_key else records.value(number)
            try:
                found.append(F.when(rows, matches(self._path, value, schema, _CONDITION)))
            except UnfitError as error:
                unfit.append(F.when(rows, F.lit(f"{_CONDITION} {self._condition} does not fit the {side}: {error}")))
        matched = F.coalesce(*found, F.lit(None).cast("boolean"))
        drop, messages = matched != F.lit(self._includes), unfit
        if self._missing == _EXCLUDE:
            drop = F.coalesce(drop, F.coalesce(*unfit, F.lit(None)).isNull())
        elif self._missing == _FAIL:
            missing = F.lit(f"{_CONDITION} {self._condition}: a field of the {side} is missing or null")
            messages = [*unfit, F.when(matched.isNull(), missing)]
        return records.changed(message=F.coalesce(*messages) if messages else None, drop=drop)


class ConditionFilterKey(ConditionFilter):
    """ConditionFilter by keys."""

    is_key = True


class ConditionFilterValue(ConditionFilter):
    """ConditionFilter by values."""

    is_key = False
