"""Fleets, insurance, payrolls, devices and their logs."""

from __future__ import annotations

from typing import Final

from headrace.connectors.datagen.quickstarts.declaring import (
    START_MS,
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

_GENDERS: Final = ("FEMALE", "MALE", "OTHER")
_DRIVERS: Final = [f"{first} {last}" for first, last in full_names(100)]
_DEVICES: Final = addresses("192.0.2", 100)
_HOSTS: Final = [f"host-{number:03}.example" for number in range(100)]
_CUSTOMERS: Final = [
    {
        "customer_id": 100 + number,
        "first_name": first,
        "last_name": last,
        "email": f"{first}.{last}@example.com".lower(),
        "gender": _GENDERS[number % 3],
        "income": 20_000 + number * 613 % 150_000,
        "fico": 500 + number * 7 % 350,
        "years_active": number % 30,
    }
    for number, (first, last) in enumerate(full_names(150))
]
_OFFERS: Final = ("bicycle", "boat", "house", "pet", "travel")
_EMPLOYEES: Final = [
    {
        "employee_id": 1000 + number,
        "first_name": first,
        "last_name": last,
        "age": 18 + number * 7 % 50,
        "ssn": f"000-{number % 90 + 10}-{1000 + number * 83 % 9000}",
        "hourly_rate": 12 + number % 40,
        "gender": _GENDERS[number % 3],
        "email": f"{first}.{last}@example.com".lower(),
    }
    for number, (first, last) in enumerate(full_names(100))
]
_WORDS: Final = "[a-z ]{10,15}"

QUICKSTARTS: Final = {
    "fleet_mgmt_description": Quickstart(
        "vehicle_id",
        record(
            "fleet_mgmt.fleet_mgmt_description",
            vehicle_id=ranged("int", 1000, 9999),
            driver_name=any_of(_DRIVERS),
            license_plate=matching(r"[A-Z]{2}\d{6}[A-Z]"),
        ),
    ),
    "fleet_mgmt_location": Quickstart(
        "vehicle_id",
        record(
            "fleet_mgmt.fleet_mgmt_location",
            vehicle_id=ranged("int", 1000, 9999),
            location=record("location", latitude="double", longitude="double"),
            ts=stamped(100_000),
        ),
    ),
    "fleet_mgmt_sensors": Quickstart(
        "vehicle_id",
        record(
            "fleet_mgmt.fleet_mgmt_sensors",
            vehicle_id=ranged("int", 1000, 9999),
            engine_temperature=ranged("int", 150, 250),
            average_rpm=ranged("int", 1800, 5000),
        ),
    ),
    "insurance_offers": Quickstart(
        "offer_id",
        one_of(
            "insurance.insurance_offers",
            [
                {"offer_id": number, "offer_name": name, "offer_url": f"https://insurance.example/offers/{name}"}
                for number, name in enumerate(_OFFERS, 1)
            ],
            offer_id="int",
            offer_name="string",
            offer_url="string",
        ),
    ),
    "insurance_customers": Quickstart(
        "customer_id",
        one_of(
            "insurance.insurance_customers",
            _CUSTOMERS,
            customer_id="int",
            first_name="string",
            last_name="string",
            email="string",
            gender="string",
            income="int",
            fico="int",
            years_active="int",
        ),
    ),
    "insurance_customer_activity": Quickstart(
        "activity_id",
        record(
            "insurance.insurance_customer_activity",
            activity_id=counted("int", 1),
            customer_id=any_of([customer["customer_id"] for customer in _CUSTOMERS], "int"),
            activity_type=any_of(("call", "claim", "visit")),
            propensity_to_churn=ranged("double", 0.01, 1),
            ip_address=any_of(addresses("203.0.113", 50)),
        ),
    ),
    "payroll_employee": Quickstart(
        "employee_id",
        one_of(
            "payroll.payroll_employee",
            _EMPLOYEES,
            employee_id="int",
            first_name="string",
            last_name="string",
            age="int",
            ssn="string",
            hourly_rate="int",
            gender="string",
            email="string",
        ),
    ),
    "payroll_employee_location": Quickstart(
        "employee_id",
        record(
            "payroll.payroll_employee_location",
            employee_id=ranged("int", 1000, 1100),
            lab=matching(r"lab-\d{1}"),
            department_id=ranged("int", 1, 10),
            arrival_date=ranged("int", 18_000, 19_000, logicalType="date"),
        ),
    ),
    "payroll_bonus": Quickstart(
        "employee_id",
        record(
            "payroll.payroll_bonus",
            employee_id=ranged("int", 1000, 1100),
            bonus=ranged("int", 10, 50),
            ts=ranged("long", START_MS, 1640995199000, logicalType="timestamp-millis"),
        ),
    ),
    "syslog_logs": Quickstart(
        "host",
        record(
            "syslogs.syslog_logs",
            name=matching("[a-zA-Z]{5,8}"),
            type=any_of(("AUDIT", "KERNEL", "MAIL", "NETWORK")),
            message=matching(_WORDS),
            host=any_of(_HOSTS[:10]),
            version=any_of(("1",)),
            tag=any_of(("app",)),
            level=ranged("int", 0, 191),
            facility=any_of(("daemon", "local0", "user")),
            severity=ranged("int", 0, 8),
            appName=matching("[A-Z]{5,8}"),
            remoteAddress=any_of(addresses("198.51.100", 10)),
            rawMessage=matching(_WORDS),
            processId=matching("[1-9]{1}[0-9]{6}"),
            messageId=matching("[1-9]{1}[0-9]{2}"),
            deviceVendor=matching("[a-z]{5}"),
            deviceProduct=matching("[a-z]{5}"),
            deviceVersion=any_of(("1.0", "1.1", "2.0", "2.5", "3.0")),
            ts=counted("long", START_MS, 100),
        ),
    ),
    "device_information": Quickstart(
        "device_ip",
        record(
            "device_information.device_information",
            device_ip=any_of(_DEVICES),
            mac_address=any_of([f"02:00:00:00:00:{number:02x}" for number in range(50)]),
            owner=any_of(_DRIVERS),
        ),
    ),
    "siem_logs": Quickstart(
        "hostname",
        record(
            "siem_logs.siem_logs",
            hostname=any_of(_HOSTS),
            action=any_of(("Accept", "Drop")),
            l4=any_of(("TCP",)),
            access_group=any_of(("admins", "guests", "lab", "office", "partners")),
            source=record("source", ip=any_of(_DEVICES), port=ranged("int", 10_000, 99_999)),
            destination=record(
                "destination", ip=any_of(addresses("198.51.100", 100)), port=ranged("int", 10_000, 99_999)
            ),
        ),
    ),
}
