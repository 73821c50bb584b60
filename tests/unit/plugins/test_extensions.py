"""Extensions of the contracts: found if they are inherited, and missed aloud if they are not."""

import pytest

from headrace.plugins.extensions import OF_SINKS, OF_SOURCES, Measured, PacedSource, check_extensions, extension


class Plain:
    """A task without extensions."""


class Waits(PacedSource):
    waits_for_news = True


class Forgetful(Plain):
    """Stages, as it believes."""

    def staging_writer(self, attempt: str) -> None: ...


def test_a_task_without_an_extension_has_its_defaults() -> None:
    waits = Waits()
    assert extension(waits, PacedSource) is waits
    assert not extension(Plain(), PacedSource).waits_for_news
    assert extension(waits, Measured).samples() == ()


def test_a_method_that_nobody_would_call_is_refused() -> None:
    check_extensions(Plain(), OF_SINKS)
    check_extensions(Waits(), OF_SOURCES)
    with pytest.raises(TypeError, match=r"Forgetful has staging_writer.*class Forgetful\(Plain, StagingSink\)"):
        check_extensions(Forgetful(), OF_SINKS)
