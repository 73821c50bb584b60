"""`headrace dlq show` and `headrace dlq replay`: show a connector's dead letters, and send them again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.config.connector.config import consumes
from headrace.config.values import Type, read
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.cli.dlq_topic import Found
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.deadletters.letter_pages import LetterPages, ShownLetter
from headrace.worker.deadletters.replay import NoTarget, Replay, ReplayStopped, Wanted
from headrace.worker.errors import ConnectError, NotFound
from headrace.worker.kafka.record_text import RecordText
from headrace.worker.kafka.topic_reading import KafkaSilent

_SHOWN: Final = 120
"""The most characters of a table's cell."""
_SHOW_S: Final = 600.0


def show(found: Found, limit: int, as_json: bool) -> int:
    """Print the newest dead letters, oldest first; returns the exit code. Errors: CommandFailed."""
    with _reasons(), _text(found, "key") as key, _text(found, "value") as value, found.topic.opened() as consumer:
        letters = LetterPages(found.topic, key, value, _SHOW_S).page(consumer, limit).letters[::-1]
    if as_json:
        for one in letters:
            sys.stdout.write(json.dumps(_described(one), ensure_ascii=False) + "\n")
        return 0
    Console().print(_table(found, letters))
    Console().print(Text(_printable(f"the newest {len(letters)} dead letters of {found.topic.connector}")))
    return 0


def replay(found: Found, to: str | None, limit: int | None, dry_run: bool, say: Callable[[str], None]) -> int:
    """Send dead letters not replayed yet to their topics, or to `to`; returns the exit code. Errors: CommandFailed."""
    made = Replay(found.topic, lambda topic: _reads(found, topic), to, dry_run)
    with _reasons(), found.topic.opened() as consumer:
        made.run(consumer, Wanted(most=limit))
    verb = "would be replayed" if dry_run else "replayed"
    for topic, count in sorted(made.counts.items()):
        say(_printable(f"{count} {verb} to {topic}"))
    say(f"{made.counts.total()} of {found.topic.connector}'s dead letters {verb}")
    return 0


def _reads(found: Found, topic: str) -> bool:
    """True if the connector reads the topic, or if its config is not known."""
    topics = read("topics", Type.LIST, found.config.get("topics", ""))
    return not found.config or consumes(topic, topics, found.config.get("topics.regex", ""))


@contextmanager
def _reasons() -> Iterator[None]:
    """Turn errors into those of a command, with what its options can do about them."""
    try:
        yield
    except KafkaSilent as error:
        text = f"{error}; another is named by --bootstrap-server, a login by --command-config"
        raise CommandFailed(text, 3) from error
    except NotFound as error:
        raise CommandFailed(str(error)) from error
    except NoTarget as error:
        raise CommandFailed(f"{error} with --to (and --limit 1, where it is the only one)", 2) from error
    except ReplayStopped as error:
        raise CommandFailed(f"{error}; another topic is named by --to") from error
    except ConnectError as error:
        raise CommandFailed(str(error)) from error


@contextmanager
def _text(found: Found, side: str) -> Iterator[RecordText]:
    """Yield a function that shows bytes as text, with the converter of the connector's config, if any."""
    made = RecordText.of_connector(side, found.config, {}, Plugins.discover())
    made.longest = None
    with closing(made):
        yield made


def _described(one: ShownLetter) -> dict[str, Any]:
    return {
        "partition": one.letter.place.partition,
        "offset": one.letter.place.offset,
        "timestamp": one.letter.timestamp,
        "key": one.key,
        "value": one.value,
        "headers": dict(one.headers),
        "error": dict(one.letter.told),
    }


def _table(found: Found, letters: list[ShownLetter]) -> Table:
    table = Table(title=Text(_printable(f"Dead letters in {found.topic.name}")), show_lines=True)
    for name in ("offset", "record", "stage", "error", "key", "value"):
        table.add_column(name, overflow="fold")
    for one in letters:
        told, place = one.letter.told, one.letter.place
        origin = f"{told.get('topic')}-{told.get('partition')}@{told.get('offset')}" if "partition" in told else None
        cells = (
            f"{place.partition}:{place.offset}",
            origin or told.get("source.offset"),
            told.get("stage"),
            told.get("exception.message"),
            one.key,
            one.value,
        )
        table.add_row(*(_cut(cell or "") for cell in cells))
    return table


def _cut(text: str) -> Text:
    """Shorten the text; it is shown literally, not as Rich's markup or a terminal's commands."""
    return Text(_printable(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
