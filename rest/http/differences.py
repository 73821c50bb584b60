"""The differences of two configs as clients may see them: secrets are hidden, variables shown."""

from __future__ import annotations

from headrace.rest.http.masking import Masking
from headrace.worker.logging.redaction import VARIABLE, Redaction, secrets_of
from headrace.worker.model import Config


def differences(before: Config, after: Config, masking: Masking) -> dict[str, tuple[str | None, str | None]]:
    """The values before and after of each key that was added, removed or changed; None if there is none."""
    given = [{key: value for key, value in config.items() if value is not None} for config in (before, after)]
    masked = [masking.masked(config) for config in given]
    redaction = Redaction.of({**given[0], **given[1]}, {**masked[0], **masked[1]}, secrets_of(given[0], masked[0]))

    def shown(which: int, key: str) -> str | None:
        value = given[which].get(key)
        if value is None or VARIABLE.fullmatch(value):
            return value
        return redaction.hide(masked[which][key] or "")

    keys = [key for key in {**given[0], **given[1]} if given[0].get(key) != given[1].get(key)]
    return {key: (shown(0, key), shown(1, key)) for key in keys}
