"""The names that parcels are made of: people, firms, streets, towns and kinds of property.

`parcels` draws from these lists by position, so adding a name anywhere changes the truth about every parcel. Some
names carry an apostrophe, an ampersand or a letter outside ASCII, because the records of real counties do.
"""

from typing import NamedTuple

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
