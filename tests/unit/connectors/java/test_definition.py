from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.config.settings import Importance, Password, Type, Width
from headrace.connectors.java.definition import settings_of


def described(name: str, of_type: str, **more: Any) -> dict[str, Any]:
    plain = {
        "importance": "LOW",
        "documentation": "",
        "group": None,
        "order": -1,
        "width": "NONE",
        "display_name": name,
    }
    rest = {"dependents": [], "recommends": False, "internal": False}
    return {"name": name, "type": of_type, **plain, **rest, **more}


def test_settings_are_as_the_plugin_declares_them() -> None:
    asked: list[Mapping[str, str]] = []

    def offers(config: Mapping[str, str]) -> Mapping[str, Mapping[str, Any]]:
        asked.append(dict(config))
        return {"mode": {"offers": ["a", "b"], "visible": False}}

    settings = settings_of(
        [
            described("mode", "STRING", recommends=True, group="G", order=2, width="LONG", importance="HIGH"),
            described("other", "STRING", recommends=True, default=None),
            described("list", "LIST", default="x,y"),
            described("number", "LONG", default="5"),
            described("secret", "PASSWORD", default="hush"),
            described("class", "CLASS", default="org.x.Y"),
            described("hidden", "INT", internal=True, default="1"),
        ],
        offers,
    )
    mode = settings["mode"]
    assert (mode.type, mode.importance, mode.width, mode.group, mode.order) == (
        Type.STRING,
        Importance.HIGH,
        Width.LONG,
        "G",
        2,
    )
    assert mode.required
    assert "hidden" not in settings
    assert settings.parse({"mode": "m"}) == {
        "mode": "m",
        "other": None,
        "list": ["x", "y"],
        "number": 5,
        "secret": Password("hush"),
        "class": "org.x.Y",
    }
    assert settings["secret"].key_info()["default_value"] == "[hidden]"
    values = settings.validate({"mode": "m", "secret": "told"})
    assert (values["mode"].recommended_values, values["mode"].visible) == (["a", "b"], False)
    assert (values["other"].recommended_values, values["other"].visible) == ([], True)
    wanted = {"mode": "m", "list": "x,y", "number": "5", "secret": "told", "class": "org.x.Y"}
    assert asked == [wanted], "once for all settings"


def test_validators_are_the_plugins_own() -> None:
    asked: list[tuple[str, str | None]] = []

    def checks(name: str, text: str | None) -> str | None:
        asked.append((name, text))
        return "it refuses" if text == "9" else None

    rows = [
        described("count", "INT", default="1", validates=True),
        described("free", "INT", default="9", validates=False),
    ]
    settings = settings_of(rows, lambda _: {}, checks).embedded("transforms.a.", "Transforms: a", 2)
    assert settings.validate({"transforms.a.count": "9"})["transforms.a.count"].errors == ["it refuses"]
    assert settings.validate({})["transforms.a.free"].errors == []
    assert asked == [("count", "9"), ("count", "1")]
    assert settings_of(rows, lambda _: {})["count"].validator is None
