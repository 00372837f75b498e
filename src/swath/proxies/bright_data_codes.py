"""What Bright Data's error codes mean for us, and what to do about each. Only the code counts: texts are shared.

Read by bright_data.py. A code that is not listed is judged by the family that its name begins with.
"""

from __future__ import annotations

from typing import Final

from swath.domain.failure import FailureKind

__all__ = ["CODES", "meaning"]

_K = FailureKind
Meaning = tuple[FailureKind, str]

_KYC: Final = "verify the account (KYC) with the provider, or take another way out"
_GOVERNMENT: Final = (
    "government sites are closed to accounts without KYC: verify the account with the provider, or go direct"
)
_LOGIN: Final = "check SWATH_PROXY_CUSTOMER and the zone's name and password"
_ZONE_LISTS: Final = "the zone's own list of sites forbids it; change the list at the provider"
_SLOWER: Final = "the provider asks us to slow down"

CODES: Final[dict[str, Meaning]] = {
    "client_10000": (_K.ACCESS_POLICY, _LOGIN),
    "client_10001": (_K.ACCESS_POLICY, _LOGIN),
    "client_10002": (_K.ACCESS_POLICY, "there is no such zone; check the zone's name"),
    "client_10010": (_K.ACCESS_POLICY, _LOGIN),
    "client_10020": (_K.ACCESS_POLICY, "the account or zone is suspended; look at its balance and state"),
    "client_10030": (_K.ACCESS_POLICY, "this machine's address is not on the zone's list"),
    "client_10040": (_K.ACCESS_POLICY, _KYC),
    "client_10050": (_K.ACCESS_POLICY, "this machine's address is on the zone's deny list"),
    "client_10060": (_K.ACCESS_POLICY, "the exit address is not in the zone"),
    "client_10061": (_K.ACCESS_POLICY, "the zone has no exit in that country"),
    "client_10062": (_K.ACCESS_POLICY, "the zone has no exit in that country"),
    "client_10063": (_K.ACCESS_POLICY, "the exit address is not valid"),
    "client_10090": (_K.ACCESS_POLICY, "this is the wrong product for the request"),
    "client_10100": (_K.ACCESS_POLICY, "the zone's usage limit is reached; raise it at the provider"),
    "client_10110": (_K.RATE_LIMITED, "the account sends too fast; an account with funds may send faster"),
    "client_10120": (_K.ACCESS_POLICY, "the zone does not allow another route"),
    "client_10140": (_K.PROXY, "the provider saw us hang up"),
    "client_10250": (_K.ACCESS_POLICY, _ZONE_LISTS),
    "client_10260": (_K.ACCESS_POLICY, _ZONE_LISTS),
    "policy_20000": (_K.ACCESS_POLICY, "the provider does not serve this category of site"),
    "policy_20050": (_K.ACCESS_POLICY, "the provider does not serve this site"),
    "policy_20051": (_K.ACCESS_POLICY, _GOVERNMENT),
    "policy_20052": (_K.ACCESS_POLICY, "the provider serves this site on another network only"),
    "policy_20070": (_K.ACCESS_POLICY, "the site is closed to exits in that country"),
    "policy_20080": (_K.ACCESS_POLICY, "the provider serves this site on another network only"),
    "policy_20090": (_K.ACCESS_POLICY, "the provider serves this site through web_unlocker only"),
    "policy_20110": (_K.ACCESS_POLICY, "the provider serves search engines through another product only"),
    "policy_20130": (_K.ACCESS_POLICY, f"this method needs KYC (POST does): {_KYC}"),
    "policy_20140": (_K.ACCESS_POLICY, f"the site's robots.txt forbids it to accounts without KYC: {_KYC}"),
    "policy_20220": (_K.RATE_LIMITED, f"{_SLOWER} on this site"),
    "policy_20222": (_K.RATE_LIMITED, f"{_SLOWER} on this site"),
    "policy_20223": (_K.RATE_LIMITED, f"{_SLOWER} on this site"),
    "policy_20230": (_K.ACCESS_POLICY, "the provider does not serve this site from that country"),
    "peer_30030": (_K.PROXY, "no exit is free in that city"),
    "peer_30040": (_K.PROXY, "the exit took too long"),
    "target_40001": (_K.DNS_UNKNOWN, "the provider finds no such name"),
    "target_40011": (_K.CONNECT, "the provider could not connect to the site"),
    "target_40020": (_K.TIMEOUT, "the site did not answer the provider in time"),
    "target_40021": (_K.TIMEOUT, "the site did not answer the provider in time"),
    "kyc_required": (_K.ACCESS_POLICY, _KYC),
    "business_account_required": (_K.ACCESS_POLICY, "the product needs a business account; ask the provider"),
    "ub_bad_endpoint_robots": (_K.ACCESS_POLICY, f"the site's robots.txt forbids it to accounts without KYC: {_KYC}"),
}


def meaning(code: str, status: int) -> Meaning:
    """The kind of failure that a code stands for, and the hint."""
    known = CODES.get(code)
    if known is not None:
        return known
    if status == 429:
        return _K.RATE_LIMITED, _SLOWER
    family = code.partition("_")[0]
    if family == "peer" or (family not in {"policy", "target"} and status >= 500):
        return _K.PROXY, "the provider could not do it"
    if family == "target":
        return _K.CONNECT, "the provider could not reach the site"
    return _K.ACCESS_POLICY, "the provider refuses it; look the code up in its documents"
