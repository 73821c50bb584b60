"""Orders, products, purchases, cards, pizza, shoes."""

from __future__ import annotations

from typing import Any, Final

from headrace.connectors.datagen.quickstarts.declaring import (
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

_ITEMS: Final = (
    *("kettle", "lamp", "teapot", "blanket", "mirror", "clock", "ladder", "basket"),
    *("candle", "saucepan", "broom", "bucket", "cushion", "vase", "stool", "towel"),
)
_STORES: Final = (
    *(("Arkville", "NA"), ("Birchton", "NB"), ("Cedar Bay", "SC"), ("Dunmoor", "SD"), ("Elmstead", "WE")),
    *(("Fernley", "WF"), ("Gorse Hill", "EG")),
)
_TOPPINGS: Final = ("calzone", "dessert", "drink", "pasta", "pizza", "salad", "starter")
_SHOES: Final = [
    {
        "id": f"shoe-{number:04}",
        "brand": f"{brand} & Co",
        "name": f"{brand} {model} {number // 100 + 1}",
        "sale_price": 3_995 + number * 37 % 12_000,
        "rating": number % 50 / 10,
    }
    for number in range(643)
    for brand, model in [
        (("Alder", "Birk", "Corvo", "Dune", "Estel")[number % 5], ("Trail", "City", "Dash", "Cloud")[number % 4])
    ]
]
_CUSTOMERS: Final = [
    {
        "id": f"customer-{number:04}",
        "first_name": first,
        "last_name": last,
        "email": f"{first}.{last}.{number}@example.com".lower(),
        "phone": f"555-{number % 900 + 100:03}-{number * 7 % 10_000:04}",
        "street_address": f"{number % 97 + 1} {('Mill', 'Church', 'Station', 'Orchard')[number % 4]} Lane",
        "state": _STORES[number % 7][1],
        "zip_code": f"{10_000 + number * 131 % 89_999}",
        "country": "Ruritania",
        "country_code": "RR",
    }
    for number, (first, last) in enumerate(full_names(301))
]
_SHOE_IDS: Final = [shoe["id"] for shoe in _SHOES]
_CUSTOMER_IDS: Final = [customer["id"] for customer in _CUSTOMERS]


def _order_lines() -> list[dict[str, Any]]:
    lines = []
    for number in range(100):
        quantity, unit = number % 5 + 1, 3.25 + number % 20 / 2
        category = _TOPPINGS[number % 7]
        line = {"product_id": number, "category": category, "quantity": quantity, "unit_price": unit}
        lines.append({**line, "net_price": quantity * unit})
    return lines


_PIZZA: Final = {"store_id": ranged("int", 1, 10)}
_DATE: Final = ranged("int", 18_000, 19_000, logicalType="date")
_LINE: Final = one_of(
    "order_line",
    _order_lines(),
    product_id="int",
    category="string",
    quantity="int",
    unit_price="double",
    net_price="double",
)

QUICKSTARTS: Final = {
    "orders": Quickstart(
        "orderid",
        record(
            "ksql.orders",
            ordertime=ranged("long", TIMES["min"], TIMES["max"]),
            orderid=counted("int"),
            itemid=matching("Item_[1-9][0-9]{0,2}"),
            orderunits=ranged("double", 0.1, 10.0),
            address=record(
                "address",
                city=matching("City_[1-9]{0,2}"),
                state=matching("State_[1-9]{0,2}"),
                zipcode=ranged("long", 10_000, 99_999),
            ),
        ),
    ),
    "inventory": Quickstart(
        "id",
        record("ksql.inventory", id=counted("long"), quantity=counted("long"), productid=counted("long")),
    ),
    "product": Quickstart(
        "id",
        record(
            "ksql.product",
            id=counted("long"),
            name=counted("string"),
            description=counted("string"),
            price=counted("double"),
        ),
    ),
    "purchases": Quickstart(
        "id",
        record(
            "datagen.example.purchase",
            id=counted("long"),
            item_type=any_of(_ITEMS),
            quantity=ranged("long", 1, 10),
            price_per_unit=ranged("bytes", 10.0, 50.0, logicalType="decimal", precision=4, scale=2),
        ),
    ),
    "transactions": Quickstart(
        "transaction_id",
        record(
            "datagen.example.transactions",
            transaction_id=counted("long", 1),
            card_id=ranged("long", 1, 24),
            user_id=matching("User_[1-9]{0,1}"),
            purchase_id=counted("long"),
            store_id=ranged("int", 1, 7),
        ),
    ),
    "stores": Quickstart(
        "store_id",
        one_of(
            "datagen.example.stores",
            [{"store_id": n, "city": city, "state": state} for n, (city, state) in enumerate(_STORES, 1)],
            store_id="int",
            city="string",
            state="string",
        ),
    ),
    "credit_cards": Quickstart(
        "card_id",
        one_of(
            "datagen.example.users",
            [
                {
                    "card_id": number,
                    "card_number": 9_990_000_000_000_000 + number * 7_919,
                    "cvv": 100 + number * 37,
                    "expiration_date": f"{number % 12 + 1:02}/{27 + number % 5}",
                }
                for number in range(1, 25)
            ],
            card_id="int",
            card_number="long",
            cvv="int",
            expiration_date="string",
        ),
    ),
    "pizza_orders": Quickstart(
        "store_id",
        record(
            "pizza_orders.pizza_orders",
            **_PIZZA,
            store_order_id=counted("int", 1000),
            coupon_code=ranged("int", 1000, 2000),
            date=_DATE,
            status=any_of(("accepted",)),
            order_lines={"type": "array", "items": _LINE, "arg.properties": {"length": {"min": 1, "max": 5}}},
        ),
    ),
    "pizza_orders_completed": Quickstart(
        "store_id",
        record(
            "pizza_orders.pizza_orders_completed",
            **_PIZZA,
            store_order_id=counted("int", 1000, 2),
            date=_DATE,
            status=any_of(("completed",)),
            rack_time_secs=ranged("int", 130, 230),
            order_delivery_time_secs=ranged("int", 1100, 2000),
        ),
    ),
    "pizza_orders_cancelled": Quickstart(
        "store_id",
        record(
            "pizza_orders.pizza_orders_cancelled",
            **_PIZZA,
            store_order_id=counted("int", 1001, 2),
            date=_DATE,
            status=any_of(("cancelled",)),
        ),
    ),
    "shoes": Quickstart(
        "id",
        one_of(
            "shoes.shoe_product",
            _SHOES,
            id="string",
            brand="string",
            name="string",
            sale_price="int",
            rating="double",
        ),
    ),
    "shoe_customers": Quickstart(
        "id", one_of("shoes.shoe_customers", _CUSTOMERS, **dict.fromkeys(_CUSTOMERS[0], "string"))
    ),
    "shoe_orders": Quickstart(
        "order_id",
        record(
            "shoes.shoe_orders",
            order_id=counted("int", 1000),
            product_id=any_of(_SHOE_IDS),
            customer_id=any_of(_CUSTOMER_IDS),
            ts=stamped(100_000),
        ),
    ),
    "shoe_clickstream": Quickstart(
        "product_id",
        record(
            "shoes.shoe_clickstream",
            product_id=any_of(_SHOE_IDS),
            user_id=any_of(_CUSTOMER_IDS),
            view_time=ranged("int", 10, 120),
            page_url=matching("https://shoes[.]example/product/[a-z]{5}"),
            ip=any_of(addresses("203.0.113", 100)),
            ts=stamped(10_000, 1609457200000),
        ),
    ),
}
