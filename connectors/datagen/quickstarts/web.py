"""Users, page views, ratings, clicks, trades, games, campaigns."""

from __future__ import annotations

from typing import Final

from headrace.connectors.datagen.quickstarts.declaring import (
    FIRST_NAMES,
    LAST_NAMES,
    TIMES,
    Quickstart,
    addresses,
    any_of,
    counted,
    full_names,
    matching,
    one_of,
    ranged,
    record,
    stamped,
)

_USER: Final = {
    "registertime": ranged("long", TIMES["min"], TIMES["max"]),
    "userid": matching("User_[1-9]"),
    "regionid": matching("Region_[1-9]"),
    "gender": any_of(("FEMALE", "MALE", "OTHER")),
}
_INTERESTS: Final = (["chess", "hiking"], ["cooking"], ["jazz", "opera", "cinema"], ["rowing", "gardening"])
_CONTACTS: Final = [
    {"phone": f"555-01{number:02}", "city": city, "zip": f"{number}0{number}0"}
    for number, city in enumerate(("Arkville", "Birchton", "Cedar Bay", "Dunmoor", "Elmstead"), 11)
]
_STATUSES: Final = (
    (200, "OK"),
    (301, "Moved"),
    (302, "Found"),
    (404, "Not found"),
    (405, "Not allowed"),
    (500, "Error"),
)
_PAGES: Final = ("/", "/about", "/basket", "/help?topic=returns", "/images/logo.svg", "/search?q=kettle")
_LOGINS: Final = [f"{first.lower()}_{last.lower()}" for first, last in full_names(18)]
_MESSAGES: Final = (
    *("a quiet flight", "boarding took an hour", "the coffee was cold", "friendly crew", "my seat was broken"),
    *(
        "would fly again",
        "more room than I thought",
        "the film stopped half-way",
        "landed early",
        "lost my bag",
        "fine",
    ),
)
_ROOMS: Final = ("Attic", "Bastion", "Cellar", "Dungeon", "Eyrie", "Foundry", "Grotto", "Harbour", "Island")

_CLICK: Final = {
    "ip": any_of(addresses("192.0.2", 40)),
    "userid": ranged("int", -1, 40),
    "remote_user": any_of(("-",)),
    "time": counted("string", 1, 10),
    "_time": counted("long", 1, 10),
    "request": any_of([f"GET {page} HTTP/1.1" for page in _PAGES]),
    "status": any_of([str(code) for code, _ in _STATUSES]),
    "bytes": any_of(("256", "512", "1024", "2048", "4096", "8192", "16384")),
    "referrer": any_of(("-",)),
    "agent": any_of(("Browser/1.0 (desktop)", "Browser/2.0 (phone)")),
}

QUICKSTARTS: Final = {
    "users": Quickstart("userid", record("ksql.users", **_USER)),
    "users_": Quickstart(
        "userid",
        record(
            "ksql.users",
            **_USER,
            interests={"type": "array", "items": "string", "arg.properties": {"options": list(_INTERESTS)}},
            contactinfo={"type": "map", "values": "string", "arg.properties": {"options": _CONTACTS}},
        ),
    ),
    "pageviews": Quickstart(
        "viewtime",
        record(
            "ksql.pageviews",
            viewtime=counted("long", 1, 10),
            userid=matching("User_[1-9]"),
            pageid=matching("Page_[1-9][0-9]"),
        ),
    ),
    "ratings": Quickstart(
        "rating_id",
        record(
            "ksql.ratings",
            rating_id=counted("long", 1),
            user_id=ranged("int", -1, 20),
            stars=ranged("int", 1, 5),
            route_id=ranged("int", 1, 9999),
            rating_time=counted("long", 1, 12),
            channel=any_of(("app", "web", "desk", "phone", "kiosk")),
            message=any_of(_MESSAGES),
        ),
    ),
    "stock_trades": Quickstart(
        "symbol",
        record(
            "ksql.StockTrade",
            side=any_of(("BUY", "SELL")),
            quantity=ranged("int", 1, 5000),
            symbol=any_of(("ZAAA", "ZBBB", "ZCCC", "ZDDD", "ZEEE", "ZFFF", "ZGGG")),
            price=ranged("int", 5, 1000),
            account=any_of(("A-100", "B-200", "C-300")),
            userid=matching("User_[1-9]"),
        ),
    ),
    "clickstream": Quickstart(
        "ip",
        record(
            "clickstream.events",
            **_CLICK,
        ),
    ),
    "clickstream_codes": Quickstart(
        "code",
        one_of(
            "clickstream.codes",
            [{"code": code, "definition": text} for code, text in _STATUSES],
            code="int",
            definition="string",
        ),
    ),
    "clickstream_users": Quickstart(
        "user_id",
        record(
            "clickstream.users",
            user_id=counted("int", 1),
            username=any_of(_LOGINS),
            registered_at=ranged("long", 1407645330000, 1502339792000),
            first_name=any_of(FIRST_NAMES[:12]),
            last_name=any_of(LAST_NAMES[:12]),
            city=any_of(("Arkville", "Birchton", "Cedar Bay", "Dunmoor", "Elmstead", "Fernley")),
            level=any_of(("Bronze", "Silver", "Gold")),
        ),
    ),
    "campaign_finance": Quickstart(
        "candidate_id",
        record(
            "datagen.campaign_finance",
            time=ranged("long", 1587715775521, 1619273364600),
            candidate_id=matching("[A-Z][1-9]{8,8}"),
            party_affiliation=any_of(("BLUE", "GREEN", "YELLOW")),
            contribution=ranged("int", 20, 3500),
        ),
    ),
    "gaming_games": Quickstart(
        "id",
        record(
            "gaming.gaming_games",
            id=ranged("int", 1000, 5000),
            room_name=any_of(_ROOMS),
            created_date=stamped(100_000),
        ),
    ),
    "gaming_players": Quickstart(
        "player_id",
        one_of(
            "gaming.gaming_players",
            [
                {"player_id": 1001 + number, "player_name": f"{first} {last}", "ip": f"198.51.100.{number + 1}"}
                for number, (first, last) in enumerate(full_names(100))
            ],
            player_id="int",
            player_name="string",
            ip="string",
        ),
    ),
    "gaming_player_activity": Quickstart(
        "player_id",
        record(
            "gaming.gaming_player_activity",
            player_id=ranged("int", 1001, 1101),
            game_room_id=ranged("int", 1000, 5000),
            points=ranged("int", 10, 500),
            coordinates=matching(r"\[[0-9][0-9],[0-9][0-9]\]"),
        ),
    ),
}
