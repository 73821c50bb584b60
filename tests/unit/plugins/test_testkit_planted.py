"""The kits pass what is right, and find each planted bug; the failure names the promise that broke."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.config.providers import ConfigProvider, FileConfigProvider, Provided
from headrace.plugins import Record
from headrace.plugins.testkit import (
    ConfigProviderContract,
    PreviewedSinkContract,
    RecordSinkContract,
    SinkDrive,
    SinkFaultsContract,
    SinkRig,
    SourceContract,
    SourceDrive,
    SourceFaultsContract,
    SourceRig,
    TcpOutside,
)
from tests.unit.plugins import planted
from tests.unit.plugins.planted import Orders, Prices, SinkShop, SourceShop
from tests.unit.plugins.planted_queue import AcknowledgesAll, AcknowledgesWhatIsOnItsWay, Jobs, QueueRig


class TestPrices(SourceContract, SourceFaultsContract):
    @pytest.fixture
    def rig(self) -> Iterator[SourceRig]:
        rig = SourceShop()
        yield rig
        rig.outside.close()


class TestJobs(SourceContract, SourceFaultsContract):
    @pytest.fixture
    def rig(self) -> Iterator[SourceRig]:
        rig = QueueRig()
        yield rig
        rig.outside.close()


class TestOrders(RecordSinkContract, SinkFaultsContract):
    @pytest.fixture
    def rig(self) -> Iterator[SinkRig]:
        rig = SinkShop()
        yield rig
        rig.outside.close()


class TestTells(PreviewedSinkContract):
    @pytest.fixture
    def rig(self) -> Iterator[SinkRig]:
        rig = SinkShop(planted.Tells)
        yield rig
        rig.outside.close()


def broken_promise(contract: Any, check: str, rig: Any, drive: type[Any], **more: Any) -> str | None:
    """The promise that a test of a contract finds broken; None if it passes."""
    test = getattr(contract(), check)
    given = {"rig": rig, **more}
    if "drive" in inspect.signature(test).parameters:
        given["drive"] = drive(rig)
    try:
        test(**given)
    except AssertionError as error:
        return str(error).partition("\n")[0]
    finally:
        if "drive" in given:
            given["drive"].end()
        rig.outside.close()
    return None


EACH = "each row arrives once"
RAISED = "a failure outside is raised, and not swallowed"


@pytest.mark.parametrize(
    ("bug", "check", "promise"),
    [
        (planted.SwallowsFailures, "test_a_retriable_failure_is_raised_and_nothing_is_lost", RAISED),
        (planted.SwallowsFailures, "test_a_permanent_failure_fails_the_task", RAISED),
        (
            planted.FailsForEverything,
            "test_a_retriable_failure_is_raised_and_nothing_is_lost",
            "a failure that may pass is raised as a RetriableError",
        ),
        (
            planted.TriesForEver,
            "test_a_permanent_failure_fails_the_task",
            "a failure that never passes is no Retriable",
        ),
        (planted.DropsNulls, "test_rows_without_a_value_arrive", "a row with a null or empty value is a row"),
        (
            planted.DropsEqualValues,
            "test_rows_of_equal_values_are_rows_of_their_own",
            "rows of equal values are rows of their own",
        ),
        (planted.SkipsAllBehindThePage, "test_many_rows_all_arrive", "of many rows each arrives"),
        (planted.SkipsARow, "test_no_row_up_to_a_stored_offset_is_needed_again", "an offset stands for its row"),
        (planted.SendsTheLastRowAgain, "test_nothing_new_no_plan", "the offset goes on with each batch"),
        (planted.Keeps_NoPlace, "test_partitions_are_stable_and_each_has_one_task", "with tasks.max=2 each partition"),
    ],
)
def test_a_bug_of_a_source_is_found(bug: type[Prices], check: str, promise: str) -> None:
    contract = SourceContract if hasattr(SourceContract, check) else SourceFaultsContract
    assert broken_promise(contract, check, SourceShop(), SourceDrive) is None
    found = broken_promise(contract, check, SourceShop(bug), SourceDrive)
    assert found is not None, "the kit does not find it"
    assert promise in found


@pytest.mark.parametrize(
    ("bug", "check", "more", "promise"),
    [
        (
            AcknowledgesWhatIsOnItsWay,
            "test_a_crash_between_any_two_steps_loses_nothing",
            {"step": "read", "batches": 0},
            "nothing is lost in a crash",
        ),
        (AcknowledgesAll, "test_no_row_up_to_a_stored_offset_is_needed_again", {}, "an offset stands for its row"),
    ],
)
def test_a_bug_of_a_source_of_a_queue_is_found(bug: type[Jobs], check: str, more: dict[str, Any], promise: str) -> None:
    assert broken_promise(SourceContract, check, QueueRig(), SourceDrive, **more) is None
    found = broken_promise(SourceContract, check, QueueRig(bug), SourceDrive, **more)
    assert found is not None, "the kit does not find it"
    assert promise in found


@pytest.mark.parametrize(
    ("bug", "check", "more", "promise"),
    [
        (planted.LosesTheFlush, "test_rows_stand_there_in_order_once_committed", {}, "once a batch is committed"),
        (planted.KeepsTheRestOfAPage, "test_rows_stand_there_in_order_once_committed", {}, "once a batch is committed"),
        (planted.SwallowsAFailedFlush, "test_a_retriable_failure_is_raised_and_nothing_is_lost", {}, "nothing is lost"),
        (planted.SwallowsFailedRequests, "test_a_retriable_failure_is_raised_and_nothing_is_lost", {}, "nothing is lo"),
        (planted.SwallowsFailedRequests, "test_a_permanent_failure_fails_the_task", {}, "nothing is lost"),
        (
            planted.CountsRefusedAsWritten,
            "test_refused_records_are_named_exactly",
            {"bad": (8,)},
            "the records that the",
        ),
        (planted.NamesTheNextRecord, "test_refused_records_are_named_exactly", {"bad": (8,)}, "the records that the"),
        (
            planted.NamesTheNextRecord,
            "test_refused_records_are_named_exactly",
            {"bad": (13,)},
            "the records that the",
        ),
        (planted.FailsAllForOne, "test_refused_records_are_named_exactly", {"bad": (8,)}, "the records that the"),
        (planted.WritesOnePageOnly, "test_many_rows_all_arrive", {}, "of a large batch each row is outside"),
        (
            planted.DropsTombstones,
            "test_a_tombstone_is_a_record",
            {},
            "a tombstone (a record without a value) is `kept`",
        ),
        (planted.DropsEmptyAndEqualRows, "test_rows_of_equal_values_are_rows_of_their_own", {}, "rows of equal values"),
        (
            planted.TriesForEverToWrite,
            "test_a_permanent_failure_fails_the_task",
            {},
            "a failure that never passes is no RetriableError",
        ),
        (
            planted.FailsForEveryAnswer,
            "test_a_retriable_failure_is_raised_and_nothing_is_lost",
            {},
            "a failure that may pass is raised as a RetriableError",
        ),
        (
            planted.NeverConnectsAgain,
            "test_a_dropped_connection_is_opened_anew",
            {},
            "once the outside system is there",
        ),
        (planted.TakesTextHeadersOnly, "test_headers_and_timestamps_are_taken", {}, "a record may have any headers"),
    ],
)
def test_a_bug_of_a_sink_is_found(bug: type[Orders], check: str, more: dict[str, Any], promise: str) -> None:
    contract = RecordSinkContract if hasattr(RecordSinkContract, check) else SinkFaultsContract
    assert broken_promise(contract, check, SinkShop(), SinkDrive, **more) is None
    found = broken_promise(contract, check, SinkShop(bug), SinkDrive, **more)
    assert found is not None, "the kit does not find it"
    assert promise in found


@pytest.mark.parametrize(
    ("bug", "check", "promise"),
    [
        (planted.WritesInItsPreview, "test_a_preview_changes_nothing", "a preview changes nothing outside"),
        (
            planted.TellsWhatItDoesNotWrite,
            "test_a_preview_tells_hostile_values_as_they_are",
            "a preview tells hostile values as they are then written",
        ),
        (planted.TellsOfSomeOnly, "test_a_preview_tells_what_is_then_written", "a preview tells what is then written"),
        (planted.NamesNoRecord, "test_effects_name_their_records", "each record that is written has an effect"),
    ],
)
def test_a_bug_of_a_preview_is_found(bug: type[Orders], check: str, promise: str) -> None:
    assert broken_promise(PreviewedSinkContract, check, SinkShop(planted.Tells), SinkDrive) is None
    found = broken_promise(PreviewedSinkContract, check, SinkShop(bug), SinkDrive)
    assert found is not None, "the kit does not find it"
    assert promise in found


# -- a link to a real server -------------------------------------------------------------------------------------------


class Linked(SourceShop):
    """Reaches the shop by a link that fails, while the shop itself is well."""

    def __init__(self) -> None:
        super().__init__()
        self.shop = self.outside
        self.outside = TcpOutside(int(self.shop.url.rpartition(":")[2]))

    def config(self) -> dict[str, str]:
        return {"url": f"http://127.0.0.1:{self.outside.port}", "topic": "prices"}

    def put(self, values: Sequence[Any]) -> None:
        self.shop.put(values)


class TestLinked(SourceFaultsContract):
    @pytest.fixture
    def rig(self) -> Iterator[SourceRig]:
        rig = Linked()
        yield rig
        rig.outside.close()
        rig.shop.close()

    def test_a_permanent_failure_fails_the_task(self, rig: SourceRig) -> None:
        with pytest.raises(NotImplementedError, match="TcpOutside overrides no fail_next"):
            super().test_a_permanent_failure_fails_the_task(rig)


# -- config providers --------------------------------------------------------------------------------------------------


class TestFileProvider(ConfigProviderContract):
    @pytest.fixture
    def provider(self) -> ConfigProvider:
        provider = FileConfigProvider()
        provider.configure({"allowed.paths": []})
        return provider

    @pytest.fixture
    def known(self, tmp_path: Path) -> Mapping[str, Mapping[str, str]]:
        path = tmp_path / "secrets.properties"
        path.write_text("password=hunter2\nuser=ann\n", encoding="utf-8")
        return {str(path): {"password": "hunter2", "user": "ann"}}


class Provides(ConfigProvider):
    version = "1"

    def get(self, path: str, keys: Collection[str]) -> Provided:
        return Provided({key: value for key, value in self.found(path).items() if key in keys})

    def found(self, path: str) -> Mapping[str, str]:
        return {"password": "hunter2"} if path == "vault" else {}


class GivesAll(Provides):
    def get(self, path: str, keys: Collection[str]) -> Provided:
        return Provided(self.found(path) | dict.fromkeys(keys, "") | self.found(path))


class TellsSecrets(Provides):
    def get(self, path: str, keys: Collection[str]) -> Provided:
        logging.getLogger("mine").debug("found %s", self.found(path))
        return super().get(path, keys)


class NamesNoPath(Provides):
    def found(self, path: str) -> Mapping[str, str]:
        return {"vault": {"password": "hunter2"}}.get(path) or self.fail()

    def fail(self) -> Mapping[str, str]:
        raise LookupError("not found")


@pytest.mark.parametrize(
    ("bug", "check", "promise"),
    [
        (GivesAll, "test_an_unknown_key_is_absent", "an unknown key under 'vault' is absent"),
        (TellsSecrets, "test_no_value_is_told", "no value is in the log"),
        (NamesNoPath, "test_an_unknown_path_gives_nothing_or_an_error_that_names_it", "an error that names it"),
    ],
)
def test_a_bug_of_a_config_provider_is_found(
    bug: type[ConfigProvider],
    check: str,
    promise: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    test = getattr(ConfigProviderContract(), check)
    given = {"known": {"vault": {"password": "hunter2"}}, "caplog": caplog, "capfd": capfd}
    wanted = inspect.signature(test).parameters
    test(provider=Provides(), **{name: value for name, value in given.items() if name in wanted})
    with pytest.raises(AssertionError, match=promise):
        test(provider=bug(), **{name: value for name, value in given.items() if name in wanted})


# -- the page of plugins -----------------------------------------------------------------------------------------------


class PagePrices(Prices):
    def poll(self, after: Any) -> Iterator[Record]:
        for row in self.page((after or {"id": 0})["id"]):
            yield Record(row, offset={"id": row["id"]})


@pytest.mark.parametrize(
    "check", ["test_many_rows_all_arrive", "test_a_retriable_failure_is_raised_and_nothing_is_lost"]
)
def test_what_the_page_shows_is_a_kit(check: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "plugins.md"
    (block,) = re.findall(r"```python\n(from headrace\.plugins\.testkit.*?)```", page.read_text("utf-8"), re.DOTALL)
    shown: dict[str, Any] = {"pytest": pytest, "Prices": PagePrices}
    exec(block, shown)
    assert broken_promise(shown["TestPrices"], check, shown["PricesRig"](), SourceDrive) is None
