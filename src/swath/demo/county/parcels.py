"""The data of every parcel of the demo county, derived from its number alone.

Any `NNN-NN-NNN` names a parcel, except for one number in twenty. Pages and bills are drawn from it. Adding a name to
one
of the lists changes every parcel.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeVar

SURNAMES = (
    *("SMITH", "JOHNSON", "GARCIA", "MILLER", "DAVIS", "MARTINEZ", "LOPEZ", "WILSON", "ANDERSON", "THOMAS"),
    *("TAYLOR", "MOORE", "JACKSON", "NGUYEN", "WHITE", "HARRIS", "CLARK", "RAMIREZ", "LEWIS", "ROBINSON"),
    *("WALKER", "YOUNG", "ALLEN", "KING", "WRIGHT", "TORRES", "HILL", "FLORES", "GREEN", "BEGAY"),
    *("O'BRIEN", "D'ANGELO", "MUÑOZ", "PEÑA", "GÜNTHER", "VAN DER BERG", "ST. JOHN", "SMITH-JONES"),
)
GIVEN_NAMES = (
    *("JAMES", "MARY", "ROBERT", "PATRICIA", "JOHN", "JENNIFER", "MICHAEL", "LINDA", "DAVID", "ELIZABETH"),
    *("WILLIAM", "BARBARA", "RICHARD", "SUSAN", "JOSÉ", "JESSICA", "THOMAS", "KAREN", "CARLOS", "SARAH"),
    *("DANIEL", "LISA", "MATTHEW", "NANCY", "ANTHONY", "RENÉE", "MARK", "SANDRA", "PAUL", "ASHLEY"),
)
FIRM_WORDS = (
    *("SAGUARO", "COPPER", "MESA VERDE", "IRONWOOD", "OCOTILLO", "RIO SALADO", "HIGH DESERT", "PALO VERDE"),
    *("SUNRISE", "COTTONWOOD", "CANYON", "RED ROCK", "QUAIL RUN", "SILVER CREEK", "DOS AMIGOS", "JUNIPER"),
)
FIRM_FORMS = ("HOLDINGS LLC", "PROPERTIES LLC", "LAND & CATTLE CO", "FAMILY TRUST", "PARTNERS LP", "HOMES INC")
STREETS = (
    *("OAK ST", "MAIN ST", "2ND AVE", "19TH AVE", "MCDOWELL RD", "CAMELBACK RD", "INDIAN SCHOOL RD", "BASELINE RD"),
    *("VINE ST", "PALM LN", "CACTUS WREN DR", "ROADRUNNER TRL", "MOUNTAIN VIEW BLVD", "SUNSET DR", "ELM CT"),
    *("JEFFERSON ST", "OLD MILL WAY", "RANCH RD", "VISTA DEL SOL", "COPPER MINE RD", "CHERRY PL", "LAKE SHORE DR"),
)
DIRECTIONS = ("N", "S", "E", "W")
SUBDIVISIONS = (
    *("DESERT RIDGE ESTATES", "SUNNY ACRES", "RANCHO GRANDE", "VISTA POINTE", "ORCHARD PARK", "WILLOW BEND"),
    *("O'MALLEY TRACT", "HILLS & DALES", "PASEO DEL NORTE", "STONE GATE", "MEADOWBROOK", "NORTH MOUNTAIN"),
)


class Town(NamedTuple):
    name: str
    first_zip: int


TOWNS = (
    *(Town("SAN PERDIDO", 89901), Town("MESQUITE FLAT", 89911), Town("NEW HARMONY", 89921), Town("TWIN BUTTES", 89931)),
    *(Town("CASA BLANCA", 89941), Town("FORT WILLARD", 89951), Town("COLDWATER", 89961), Town("EL NOGAL", 89971)),
)


class PropertyClass(NamedTuple):
    """A kind of property: its code, and how the county values and assesses it."""

    name: str
    built: bool
    land_dollars: tuple[int, int]
    assessed_percent: int
    largest_lot_thousandths: int


# Homes stand here four times, since most parcels of a county are homes.
PROPERTY_CLASSES = (
    *(PropertyClass("3.1 - OWNER OCCUPIED HOME", True, (18_000, 190_000), 10, 900),) * 4,
    *(PropertyClass("4.1 - RENTED HOME", True, (15_000, 150_000), 10, 700),) * 2,
    PropertyClass("1.12 - COMMERCIAL", True, (90_000, 2_400_000), 17, 9_000),
    PropertyClass("2.R - VACANT LAND", False, (2_500, 260_000), 15, 40_000),
    PropertyClass("2.3 - AGRICULTURAL", False, (8_000, 900_000), 15, 320_000),
)


Layout = Literal["table", "list"]
Status = Literal["PAID", "HALF PAID", "UNPAID"]

TAX_YEAR = 2026
HISTORY_YEARS = 8
MISSING_ONE_IN = 20

_Choice = TypeVar("_Choice")
_WELL_FORMED = re.compile(r"[0-9]{3}-[0-9]{2}-[0-9]{3}")
_FIRST_SALE = date(1985, 1, 2)
_SALE_DAYS = (date(TAX_YEAR - 1, 12, 31) - _FIRST_SALE).days
_LAYOUTS: tuple[Layout, ...] = ("table", "list")
_STATUSES: tuple[Status, ...] = ("PAID", "PAID", "PAID", "HALF PAID", "HALF PAID", "UNPAID")
_NOTHING = Decimal("0.00")


class TaxYear(NamedTuple):
    """One line of a parcel's tax history."""

    year: int
    assessed_value: int
    tax: Decimal
    paid: Decimal
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What the county knows about a parcel; values in whole dollars, taxes in dollars and cents, lots in acres."""

    parcel_id: str
    layout: Layout
    owner: str
    mailing_address: str
    situs_address: str
    legal_description: str
    subdivision: str
    tax_area: str
    property_class: str
    acreage: Decimal
    year_built: int | None
    tax_year: int
    land_value: int
    improvement_value: int
    total_value: int
    assessed_value: int
    first_half_due: Decimal
    second_half_due: Decimal
    total_due: Decimal
    paid: Decimal
    balance_due: Decimal
    status: Status
    last_sale_date: date | None
    last_sale_price: int | None
    history: tuple[TaxYear, ...]


class _SeededDraws:
    """Choices out of one hash: the digits of a large number in changing bases."""

    __slots__ = ("_left",)

    def __init__(self, parcel_id: str) -> None:
        # 512 bits: the choices below use up fewer than 300, and a test shows that none is left empty-handed.
        self._left = int.from_bytes(blake2b(parcel_id.encode(), person=b"county-parcel").digest())

    def below(self, limit: int) -> int:
        self._left, drawn = divmod(self._left, limit)
        return drawn

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def of(self, choices: tuple[_Choice, ...]) -> _Choice:
        return choices[self.below(len(choices))]


def is_well_formed(parcel_id: str) -> bool:
    return _WELL_FORMED.fullmatch(parcel_id) is not None


def exists(parcel_id: str) -> bool:
    """Say whether the county has this parcel; a number of the wrong form names none."""
    if not is_well_formed(parcel_id):
        return False
    digest = blake2b(parcel_id.encode(), digest_size=8, person=b"county-exists").digest()
    return int.from_bytes(digest) % MISSING_ONE_IN != 0


def parcel(parcel_id: str) -> Parcel:
    """Return the truth about a parcel; a LookupError if the county has none of that number."""
    if not exists(parcel_id):
        raise LookupError(f"the demo county has no parcel {parcel_id!r}")
    draws = _SeededDraws(parcel_id)
    kind = draws.of(PROPERTY_CLASSES)
    value = _value(draws, kind)
    bill = _bill(draws, value)
    situs, mailing = _addresses(draws)
    subdivision = draws.of(SUBDIVISIONS)
    sale_date, sale_price = _last_sale(draws, value)
    return Parcel(  # longer than our functions are, since a parcel has that many fields
        parcel_id=parcel_id,
        layout=draws.of(_LAYOUTS),
        owner=_owner(draws),
        mailing_address=mailing,
        situs_address=situs,
        legal_description=_legal_description(draws, subdivision),
        subdivision=subdivision,
        tax_area=f"{draws.below(1_000_000):06d}",
        property_class=kind.name,
        acreage=Decimal(draws.between(60, kind.largest_lot_thousandths)).scaleb(-3),
        year_built=draws.between(1912, TAX_YEAR - 2) if kind.built else None,
        tax_year=TAX_YEAR,
        land_value=value.land,
        improvement_value=value.improvement,
        total_value=value.land + value.improvement,
        assessed_value=value.assessed,
        first_half_due=_dollars(bill.first_half),
        second_half_due=_dollars(bill.second_half),
        total_due=_dollars(bill.first_half + bill.second_half),
        paid=_dollars(bill.paid),
        balance_due=_dollars(bill.first_half + bill.second_half - bill.paid),
        status=bill.status,
        last_sale_date=sale_date,
        last_sale_price=sale_price,
        history=_history(draws, value),
    )


class _Value(NamedTuple):
    land: int
    improvement: int
    assessed: int
    rate_thousandths: int
    """Tax per hundred dollars of assessed value, in thousandths of a dollar."""

    def tax_cents(self, assessed: int) -> int:
        return assessed * self.rate_thousandths // 1_000


class _Bill(NamedTuple):
    """The halves and what was paid of them, in cents."""

    first_half: int
    second_half: int
    paid: int
    status: Status


def _value(draws: _SeededDraws, kind: PropertyClass) -> _Value:
    land = draws.between(*kind.land_dollars) // 100 * 100
    improvement = draws.between(land, 4 * land) // 100 * 100 if kind.built else 0
    assessed = (land + improvement) * kind.assessed_percent // 100
    return _Value(land, improvement, assessed, draws.between(6_500, 13_900))


def _bill(draws: _SeededDraws, value: _Value) -> _Bill:
    total = value.tax_cents(value.assessed)
    first = (total + 1) // 2
    status = draws.of(_STATUSES)
    paid = {"PAID": total, "HALF PAID": first, "UNPAID": 0}[status]
    return _Bill(first, total - first, paid, status)


def _addresses(draws: _SeededDraws) -> tuple[str, str]:
    """Return where the parcel lies and where its bill goes: mostly the same, sometimes a box elsewhere."""
    town = draws.of(TOWNS)
    street = f"{draws.between(1, 29_999)} {draws.of(DIRECTIONS)} {draws.of(STREETS)}"
    situs = f"{street}, {town.name}, NV {town.first_zip + draws.below(10)}"
    if draws.below(4):
        return situs, situs
    elsewhere = draws.of(TOWNS)
    return situs, f"PO BOX {draws.between(10, 9_999)}, {elsewhere.name}, NV {elsewhere.first_zip}"


def _owner(draws: _SeededDraws) -> str:
    if draws.below(6) == 0:
        return f"{draws.of(FIRM_WORDS)} {draws.of(FIRM_FORMS)}"
    owner = f"{draws.of(SURNAMES)} {draws.of(GIVEN_NAMES)}"
    return f"{owner} & {draws.of(GIVEN_NAMES)}" if draws.below(3) == 0 else owner


def _legal_description(draws: _SeededDraws, subdivision: str) -> str:
    lot, book, page = draws.between(1, 640), draws.between(1, 899), draws.between(1, 50)
    return f"LOT {lot} {subdivision} UNIT {draws.between(1, 9)} MCR {book}/{page} SEC {draws.between(1, 36)}"


def _last_sale(draws: _SeededDraws, value: _Value) -> tuple[date | None, int | None]:
    if draws.below(10) == 0:
        return None, None
    price = (value.land + value.improvement) * draws.between(35, 130) // 10_000 * 100
    return _FIRST_SALE + timedelta(days=draws.below(_SALE_DAYS)), price


def _history(draws: _SeededDraws, value: _Value) -> tuple[TaxYear, ...]:
    """Return the years before the present one, the latest first; the oldest two are always paid."""
    years = []
    for back in range(1, HISTORY_YEARS + 1):
        fate, growth = divmod(draws.below(36), 3)
        assessed = value.assessed * (100 - (2 + growth) * back) // 100
        tax = _dollars(value.tax_cents(assessed))
        unpaid = fate == 0 and back < HISTORY_YEARS - 1
        years.append(
            TaxYear(TAX_YEAR - back, assessed, tax, _NOTHING if unpaid else tax, "UNPAID" if unpaid else "PAID")
        )
    return tuple(years)


def _dollars(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)
