from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from swath import Date, Failed, FailureKind, Maybe, Money, Output, parse_date, parse_money
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("K4")

MISSING = ["", " ", "-", "--", "\u2014", "N/A", "n/a", "NA", "None", "not  available", "\xa0"]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("$1,234.50", "1234.50"),
        ("(1,234.50)", "-1234.50"),
        ("$(5.00)", None),
        ("($5.00)", "-5.00"),
        ("5.00-", "-5.00"),
        ("+5", "5"),
        ("- $5", "-5"),
        ("1234567", "1234567"),
        ("US$ 12", "12"),
        ("12.50 USD", "12.50"),
        ("\u20ac12.50", "12.50"),
        ("12.50 \u20ac", "12.50"),
        ("\xa312", "12"),
        ("CHF 1'234.50", "1234.50"),
        ("1.234,50", None),
        ("12,34", None),
        ("1,2345", None),
        ("12 34", None),
        ("1 234.50", None),
        ("12.50 and more", None),
        ("LOT 5", None),
        ("$", None),
        ("(-5)", None),
        ("--5", None),
        ("\u0661\u0662", None),
        ("See Redemption Statement", None),
    ],
)
def test_amounts_are_read_as_sites_write_them_and_never_guessed(text: str, amount: str | None) -> None:
    if amount is not None:
        assert parse_money(text) == Decimal(amount)
        return
    with pytest.raises(ValueError, match="is no amount of money"):
        parse_money(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1.234,50 \u20ac", "1234.50"),
        ("1 234,50", "1234.50"),
        ("1\u202f234\u202f567,5 EUR", "1234567.5"),
        ("-0,05", "-0.05"),
        ("1.234", "1234"),
        ("12,5", "12.5"),
    ],
)
def test_a_comma_separates_the_cents_when_told(text: str, amount: str) -> None:
    assert parse_money(text, decimal=",") == Decimal(amount)
    with pytest.raises(ValueError, match="no amount"):
        parse_money("1,234.50", decimal=",")


@pytest.mark.parametrize("text", MISSING)
def test_what_says_that_there_is_nothing_is_none(text: str) -> None:
    assert parse_money(text) is None
    assert parse_date(text) is None


@pytest.mark.timeout(HANGING_SECONDS)
@pytest.mark.parametrize(
    "text", ["-" + " " * 100_000 + "x", "1," * 100_000, "9" * 1_000_000, "(" * 50_000 + "1" + ")" * 50_000]
)
def test_a_hostile_text_takes_no_time(text: str) -> None:
    for decimal in (".", ","):
        with pytest.raises(ValueError, match="is no amount"):
            parse_money(text, decimal=decimal)
    with pytest.raises(ValueError, match="is no date"):
        parse_date(text)


def test_nothing_at_all_is_none() -> None:
    assert parse_money(None) is None
    assert parse_date(None) is None


@given(st.decimals(-(10**12), 10**12, places=2), st.sampled_from(["", "$", "\u20ac", "USD "]))
def test_every_amount_survives_being_written(amount: Decimal, currency: str) -> None:
    assert parse_money(f"{currency}{amount:,}") == amount
    european = f"{amount:,}".translate(str.maketrans(",.", ".,"))
    assert parse_money(f"{european} {currency}", decimal=",") == amount
    if amount < 0:
        assert parse_money(f"({currency}{-amount:,})") == amount


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("03/01/2026", date(2026, 3, 1)),
        ("3/1/2026", date(2026, 3, 1)),
        ("3-1-26", date(2026, 3, 1)),
        ("12/31/68", date(2068, 12, 31)),
        ("12/31/69", date(1969, 12, 31)),
        ("2026-03-01", date(2026, 3, 1)),
        ("2026/3/1", date(2026, 3, 1)),
        ("March 1, 2026", date(2026, 3, 1)),
        ("Mar. 1st 2026", date(2026, 3, 1)),
        ("SEPT 5, 2024", date(2024, 9, 5)),
        ("1 March 2026", date(2026, 3, 1)),
        ("1-Mar-26", date(2026, 3, 1)),
        ("1st of March, 2026", date(2026, 3, 1)),
        ("Monday, March 2, 2026", date(2026, 3, 2)),
        ("10/1/2025 12:00:00 AM", date(2025, 10, 1)),
        ("2026-03-01T08:30:00.123Z", date(2026, 3, 1)),
        (" 03/01/2026\n", date(2026, 3, 1)),
    ],
)
def test_dates_are_read_as_american_sites_write_them(text: str, day: date) -> None:
    assert parse_date(text) == day


@pytest.mark.parametrize(
    "text",
    ["31/12/2026", "02/30/2026", "13/01/2026", "3/1", "1/2-2026", "20260301", "Mai 1, 2026", "Ma 1, 2026", "soon", "0"],
)
def test_what_is_no_date_is_refused_and_never_guessed(text: str) -> None:
    with pytest.raises(ValueError, match="is no date"):
        parse_date(text)


def test_other_orders_and_formats_are_read_when_told() -> None:
    assert parse_date("31/12/2026", day_first=True) == date(2026, 12, 31)
    assert parse_date("2026-03-01", day_first=True) == date(2026, 3, 1)
    assert parse_date("20260301", "%Y%m%d") == date(2026, 3, 1)
    assert parse_date("1.3.2026", ["%Y%m%d", "%d.%m.%Y"]) == date(2026, 3, 1)
    with pytest.raises(ValueError, match="is no date"):
        parse_date("03/01/2026", "%Y%m%d")


@given(st.dates(date(1000, 1, 1)))
def test_every_date_survives_being_written(day: date) -> None:
    year, month = f"{day.year:04d}", f"{day:%B}"
    for text in (f"{day.month}/{day.day}/{year}", f"{day:%m/%d}/{year}", day.isoformat(), f"{month} {day.day}, {year}"):
        assert parse_date(text) == day
    for text in (f"{day.day} {month[:3]} {year}", f"{day:%d}-{month[:3]}-{year}"):
        assert parse_date(text) == day
    assert parse_date(f"{day.day}/{day.month}/{year}", day_first=True) == day


@given(st.dates(date(1969, 1, 1), date(2068, 12, 31)))
def test_two_digits_of_a_year_mean_a_hundred_years(day: date) -> None:
    assert parse_date(f"{day:%m/%d/%y}") == day


class Sale(Output):
    price: Maybe[Money]
    on: Maybe[Date]
    rooms: Maybe[int]


def test_models_read_the_same_texts() -> None:
    sale = Sale.model_validate({"price": "$1,000", "on": "3/1/2026", "rooms": "4"})
    assert (sale.price, sale.on, sale.rooms) == (Decimal(1000), date(2026, 3, 1), 4)
    assert sale.model_dump(mode="json") == {"price": "1000", "on": "2026-03-01", "rooms": 4}
    assert Sale.model_validate({"price": "N/A", "on": "-", "rooms": ""}) == Sale(price=None, on=None, rooms=None)
    with pytest.raises(ValidationError, match="'31/12/2026' is no date"):
        Sale.model_validate({"price": 1, "on": "31/12/2026", "rooms": 1})


def test_a_strange_text_in_extract_is_invalid_output_and_no_bug() -> None:
    with pytest.raises(Failed, match="'soon' is no date") as raised:
        parse_date("soon")
    assert raised.value.failure.kind == FailureKind.INVALID_OUTPUT
