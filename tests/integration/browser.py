"""A real Chromium, Debian's, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.integration.debian_packages import installed

WITHIN_MS: Final = 120_000
"""The time that a page may take to show what it has to, on a busy machine."""
_LOOKS: Final[Mapping[int, Sequence[Literal["light", "dark"]]]] = {360: ("light",), 1280: ("light", "dark")}
"""The widths and colours that pages are looked at in."""
_GRAVE: Final = ("serious", "critical")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without windows."""
    path = installed(["chromium"], ["chromium"])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


def opened(browser: Browser, url: str, **context: Any) -> Page:
    """A page of a new profile below this URL."""
    made = browser.new_context(base_url=url, **context)
    made.set_default_timeout(WITHIN_MS)
    return made.new_page()


def complaints(page: Page) -> list[str]:
    """The browser's complaints about this page from now on: broken policies, errors of scripts, dialogs."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda line: found.append(line.text) if line.type == "error" else None)

    def dismiss(dialog: Any) -> None:
        found.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    return found


def faults(page: Page) -> list[str]:
    """The serious faults that axe-core finds, light and dark, wide and on a phone; and a page wider than its window."""
    found = []
    for width, schemes in _LOOKS.items():
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            for one in Axe().run(page).response["violations"]:
                if one["impact"] in _GRAVE:
                    nodes = [node["html"][:200] for node in one["nodes"][:3]]
                    found.append(f"{page.url}, {scheme}, {width}: {one['id']}: {nodes}")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{page.url} is wider than {width}")
    page.set_viewport_size({"width": max(_LOOKS), "height": 900})
    return found
