"""The check of the proxies: what is set up is set up whole, its certificates are there, and somebody answers."""

from __future__ import annotations

import asyncio

from swath.domain.errors import BadInput
from swath.domain.proxy_products import PRODUCTS, ProxyType
from swath.entrypoints.cli.doctor.finding import Finding, Subject, fail, ok, warn
from swath.proxies.bright_data import check_url
from swath.proxies.custom import parse_proxies
from swath.proxies.setup import ZONED, ProxySetup, Zone, missing_settings

__all__ = ["check_proxies"]


def check_proxies(subject: Subject) -> Finding:
    """Nothing is bought: the proxies are only connected to."""
    setup = subject.settings.proxies
    begun = [tier for tier in ZONED if setup.zones.get(tier, Zone()) != Zone()]
    half = {variable for tier in begun for variable in missing_settings(setup, tier)}
    if half:
        return fail("a zone is set up by halves", f"set {' and '.join(sorted(half))}")
    tiers = [*begun, *([ProxyType.CUSTOM] if setup.custom_urls else [])]
    if not tiers:
        return ok("none are set up; requests go out directly")
    try:
        silent = asyncio.run(_silent(subject, setup, begun))
        certificates = _certificates(setup)
    except BadInput as error:
        return fail(str(error), "correct it")
    if silent:
        return fail(f"nobody answers at {', '.join(silent)}", "check the address, and that this machine may reach it")
    if certificates is None and any(PRODUCTS[tier].opens_tls for tier in begun):
        return warn(
            f"{', '.join(tiers)}; SWATH_PROXY_CA_FILE is not set",
            "without KYC the provider opens TLS, and its certificate has to be trusted: see pick-proxies in the docs",
        )
    unpriced = [tier.value for tier in tiers if not setup.price(tier).known]
    priced = f"; no price is set for {', '.join(unpriced)}, so their cost counts as 0" if unpriced else ""
    return ok(f"{', '.join(tiers)}{priced}")


def _certificates(setup: ProxySetup) -> str | None:
    if setup.ca_file is None:
        return None
    try:
        text = setup.ca_file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"SWATH_PROXY_CA_FILE: {setup.ca_file} cannot be read as a PEM file") from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise BadInput(f"SWATH_PROXY_CA_FILE: {setup.ca_file} holds no certificate")
    return text


async def _silent(subject: Subject, setup: ProxySetup, begun: list[ProxyType]) -> list[str]:
    # Loaded here because most installations have no proxies to look at.
    from swath.web.egress.guard import Guard
    from swath.web.egress.resolver import SystemResolver
    from swath.web.proxied_transport import ProxiedTransport

    guard = Guard(SystemResolver(subject.clock), subject.clock, allow_private=subject.settings.allow_private)
    transport = ProxiedTransport(guard)
    places = {(proxy.scheme, proxy.host, proxy.port) for proxy in parse_proxies(setup.custom_urls)}
    if begun:
        places.add(check_url(setup.url, "SWATH_PROXY_URL"))
    listed = sorted(places)
    try:
        answers = await asyncio.gather(*(transport.knock(*place) for place in listed))
    finally:
        await transport.close()
    return [f"{host}:{port}" for (_, host, port), answered in zip(listed, answers, strict=True) if not answered]
