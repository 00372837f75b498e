"""Checks of AWS resources, proxies, site policies and circuits, and of what `swath serve` needs: port, keys, webhook
secrets.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Final

from swath.backends.private_files import stands_in_place
from swath.backends.sqlite import read_only
from swath.bootstrap.network import listening_ports
from swath.bootstrap.services import make_directory, open_services, open_sites, require_aws
from swath.domain.circuit_breaker import CircuitState
from swath.domain.errors import BadInput, StoreUnavailable, SwathError, UserError
from swath.domain.proxy_products import PRODUCTS, ProxyType
from swath.domain.service_key import ServiceKey
from swath.domain.webhook import MIN_SIGNING_KEY_BYTES, signing_key
from swath.entrypoints.cli.doctor.check_result import Check, CheckContext, CheckResult, fail, ok, warn
from swath.entrypoints.cli.output import plural
from swath.fetch.proxies.config import ZONED, ProxyConfig, Zone, missing_settings
from swath.fetch.proxies.providers.bright_data import check_url
from swath.fetch.proxies.providers.custom import parse_proxies
from swath.settings import DynamoLocation, FolderLocation, S3Location, SqliteLocation

__all__ = [
    "check_keys",
    "check_proxies",
    "check_queue",
    "check_results",
    "check_server",
    "check_sites",
    "check_table",
    "check_webhooks",
]

AWS_TIMEOUT_SECONDS: Final = 3.0


def check_table(subject: CheckContext) -> CheckResult:
    """The table is there, ours and active."""
    return _run_aws_check(_inspect_table, subject)


def check_queue(subject: CheckContext) -> CheckResult:
    """The queues are there, and nothing lies among the dead letters."""
    if not isinstance(subject.settings.places.store, DynamoLocation):
        return ok("none is needed: workers ask the store")
    return _run_aws_check(_inspect_queues, subject)


def check_results(subject: CheckContext) -> CheckResult:
    """Results can be written, and where all machines see them."""
    places = subject.settings.places
    if isinstance(places.results, FolderLocation) and stands_in_place(places.results.folder):
        return fail(
            f"a file, or a link that leads nowhere, stands where the folder {places.results.folder} belongs",
            "put the folder in its place, or mount what the link leads to; jobs wait until then",
        )
    if places.doubt is not None:
        return warn(places.doubt, "with workers on one machine alone this is in order")
    if not isinstance(places.results, S3Location):
        return ok(f"go to the folder {places.results.folder}")
    return _run_aws_check(_inspect_results, subject)


def _run_aws_check(check: Check, subject: CheckContext) -> CheckResult:
    try:
        require_aws()
        return check(subject)
    except UserError as error:
        return fail(str(error), "do as it says")
    except StoreUnavailable as error:
        return fail(str(error), "check the network, the region and the AWS endpoint variables")


def _inspect_table(subject: CheckContext) -> CheckResult:
    from swath.backends.aws.provisioning import TableState, read_table_state
    from swath.entrypoints.cli.aws_resources import open_resources

    async def look() -> TableState:
        async with open_resources(subject.settings, AWS_TIMEOUT_SECONDS) as there:
            return await read_table_state(there.of_table, there.table or "")

    table = asyncio.run(look())
    if table.state == "missing":
        return fail(f"there is no table {table.name!r}", "make it: `swath aws init`")
    if table.state == "foreign":
        return fail(table.why, "set SWATH_STORE=dynamodb://TABLE to a name of your own, then `swath aws init`")
    if table.why:
        return fail(table.why, "do as it says")
    if not table.usable:
        return fail(f"the table {table.name!r} is {table.state.lower()}", "wait until it is active")
    if table.billing != "PAY_PER_REQUEST":
        return warn(f"the table {table.name!r} has a fixed capacity", "on-demand capacity does not throttle a fleet")
    return ok(f"DynamoDB table {table.name!r} is {table.state.lower()}")


def _inspect_queues(subject: CheckContext) -> CheckResult:
    from swath.backends.aws.provisioning import QueueState, read_queue_states
    from swath.entrypoints.cli.aws_resources import open_resources

    async def look() -> list[QueueState]:
        async with open_resources(subject.settings, AWS_TIMEOUT_SECONDS) as there:
            return [] if there.queues is None else await read_queue_states(there.of_queues, there.queues)

    queues = asyncio.run(look())
    missing = [queue.name for queue in queues if queue.state == "missing"]
    if missing:
        return fail(
            f"there is no queue {', '.join(missing)}", "make it: `swath aws init`; until then workers only poll"
        )
    if dead := queues[-1].waiting + queues[-1].taken:
        told = f"{plural(dead, 'hint')} in {queues[-1].name!r} that no worker could settle"
        return warn(told, "nothing is lost; look at the workers' logs, then purge that queue")
    return ok(f"SQS queues of {queues[0].name!r}; no dead letters")


def _inspect_results(subject: CheckContext) -> CheckResult:
    from swath.backends.aws.s3.bucket import try_bucket
    from swath.entrypoints.cli.aws_resources import open_resources

    async def look() -> str:
        async with open_resources(subject.settings, AWS_TIMEOUT_SECONDS) as there:
            if there.bucket is not None:
                await try_bucket(there.of_bucket, there.bucket)
        return str(subject.settings.places.results)

    return ok(f"{asyncio.run(look())} can be written")


def check_proxies(subject: CheckContext) -> CheckResult:
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
        silent = asyncio.run(_unreachable_proxies(subject, setup, begun))
        certificates = _read_certificates(setup)
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


def _read_certificates(setup: ProxyConfig) -> str | None:
    if setup.ca_file is None:
        return None
    try:
        text = setup.ca_file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"SWATH_PROXY_CA_FILE: {setup.ca_file} cannot be read as a PEM file") from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise BadInput(f"SWATH_PROXY_CA_FILE: {setup.ca_file} holds no certificate")
    return text


async def _unreachable_proxies(subject: CheckContext, setup: ProxyConfig, begun: list[ProxyType]) -> list[str]:
    # Loaded here because most installations have no proxies to look at.
    from swath.fetch.egress.guard import EgressGuard
    from swath.fetch.egress.resolver import SystemResolver
    from swath.fetch.http.client.transport import ProxiedTransport

    guard = EgressGuard(SystemResolver(subject.clock), subject.clock, allow_private=subject.settings.allow_private)
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


def check_server(subject: CheckContext) -> CheckResult:
    """Its address is free, or a controller of this store has it."""
    host, port = subject.settings.host, subject.settings.port
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return fail(f"{where} cannot be listened at: {error.strerror}", "correct SWATH_HOST and SWATH_PORT")
        if port in listening_ports(subject.settings):
            return ok(f"a controller listens at {where}")
        return warn(f"{where} is taken by another program", "choose another SWATH_PORT for `swath serve`")
    return ok(f"{where} is free")


def check_keys(subject: CheckContext) -> CheckResult:
    """Whether anybody from elsewhere could be let in."""
    place = subject.settings.places.store
    if isinstance(place, SqliteLocation) and not read_only.store_file(place.folder).exists():
        return _no_keys(subject)
    try:
        keys = asyncio.run(_read_keys(subject))
    except SwathError as error:
        return warn(f"cannot be read: {error}", "see what is said of the store")
    now = subject.clock.now()
    alive = [key for key in keys if key.alive(now)]
    soon = [key for key in alive if key.expires_at is not None and key.expires_at < now + 7 * 86_400]
    if soon:
        names = ", ".join(f"{key.key_id} ({key.name})" for key in soon)
        return warn(f"{names} will expire within a week", "make another, hand it out, then revoke this one")
    if keys and not alive:
        told = "every key is revoked or expired, so the API refuses all requests that need one"
        return warn(told, "make one with `swath keys create NAME`")
    return ok(f"{plural(len(alive), 'key')} alive") if alive else _no_keys(subject)


def _no_keys(subject: CheckContext) -> CheckResult:
    if subject.settings.allowed_hosts:
        told = "none, and SWATH_ALLOWED_HOSTS is set, so the API refuses all requests that need one"
        return warn(told, "make one with `swath keys create NAME`")
    return ok("none; the API is for this machine only")


async def _read_keys(subject: CheckContext) -> list[ServiceKey]:
    async with open_services(subject.settings, only_looks=True) as services:
        return await services.store.keys()


def check_webhooks(subject: CheckContext) -> CheckResult:
    """They are signed, with secrets that cannot be guessed."""
    settings = subject.settings
    short = [secret for secret in settings.webhook_secret if len(signing_key(secret)) < MIN_SIGNING_KEY_BYTES]
    if short:
        return fail(
            f"a secret in SWATH_WEBHOOK_SECRET has fewer than {MIN_SIGNING_KEY_BYTES} bytes, and can be guessed",
            "make one: python3 -c 'import secrets, base64; "
            'print("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())\'',
        )
    if settings.webhook_url is not None and not settings.webhook_secret:
        return warn("are sent without a signature", "set SWATH_WEBHOOK_SECRET, here and at the receiver")
    return ok(f"signed with {plural(len(settings.webhook_secret), 'secret')}" if settings.webhook_secret else "none")


def check_sites(subject: CheckContext) -> CheckResult:
    """The file is in order, and no site is being left alone."""
    try:
        directory = make_directory(subject.settings)
    except UserError as error:
        return fail(str(error), "correct the file, or the setting SWATH_SITES")
    entries = plural(len(directory.sites), "site")  # of which there are shipped ones, so never none
    place = subject.settings.places.store
    if isinstance(place, SqliteLocation) and not (place.folder / "sites.sqlite").is_file():
        return ok(f"policies of {entries}; none was visited yet")
    if isinstance(place, SqliteLocation) and (locked := read_only.sites_blocker(place.folder)) is not None:
        return fail(locked.told, locked.remedy) if locked.stopped else warn(locked.told, locked.remedy)
    try:
        held = asyncio.run(_sites_with_open_circuit(subject))
    except StoreUnavailable as error:
        return warn(str(error), "look again later; nothing is sent meanwhile")
    except UserError as error:
        on_disk = isinstance(place, SqliteLocation)
        return fail(str(error), "remove the file; it starts afresh" if on_disk else "do as it says")
    if held:
        told = f"left alone, because they failed: {', '.join(held)}"
        return warn(told, "see whether they are up; a probe goes out by itself")
    return ok(f"policies of {entries}; none is left alone")


async def _sites_with_open_circuit(subject: CheckContext) -> list[str]:
    async with open_sites(subject.settings) as book:
        states = await book.states()
    return sorted(name for name, state in states.items() if state.circuit.state is not CircuitState.CLOSED)
