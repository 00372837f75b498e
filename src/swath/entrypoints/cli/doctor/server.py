"""Checks of what `swath serve` needs: a port, keys for those who come from elsewhere, and secrets for webhooks."""

from __future__ import annotations

import asyncio
import errno
import socket

from swath.backends.embedded import examine
from swath.bootstrap.network import listening_ports
from swath.bootstrap.services import open_services
from swath.domain.errors import SwathError
from swath.domain.service_key import ServiceKey
from swath.entrypoints.cli.doctor.finding import Finding, Subject, fail, ok, warn
from swath.entrypoints.cli.output import counted
from swath.integrations.webhook.sign import SHORTEST_KEY_BYTES, key_of
from swath.settings import SqlitePlace

__all__ = ["check_keys", "check_server", "check_webhooks"]


def check_server(subject: Subject) -> Finding:
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


def check_keys(subject: Subject) -> Finding:
    """Whether anybody from elsewhere could be let in."""
    place = subject.settings.places.store
    if isinstance(place, SqlitePlace) and not examine.store_file(place.folder).exists():
        return _none(subject)
    try:
        keys = asyncio.run(_keys(subject))
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
    return ok(f"{counted(len(alive), 'key')} alive") if alive else _none(subject)


def _none(subject: Subject) -> Finding:
    if subject.settings.allowed_hosts:
        told = "none, and SWATH_ALLOWED_HOSTS is set, so the API refuses all requests that need one"
        return warn(told, "make one with `swath keys create NAME`")
    return ok("none; the API is for this machine only")


async def _keys(subject: Subject) -> list[ServiceKey]:
    async with open_services(subject.settings, only_looks=True) as services:
        return await services.store.keys()


def check_webhooks(subject: Subject) -> Finding:
    """They are signed, with secrets that cannot be guessed."""
    settings = subject.settings
    short = [secret for secret in settings.webhook_secret if len(key_of(secret)) < SHORTEST_KEY_BYTES]
    if short:
        return fail(
            f"a secret in SWATH_WEBHOOK_SECRET has fewer than {SHORTEST_KEY_BYTES} bytes, and can be guessed",
            "make one: python3 -c 'import secrets, base64; "
            'print("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())\'',
        )
    if settings.webhook_url is not None and not settings.webhook_secret:
        return warn("are sent without a signature", "set SWATH_WEBHOOK_SECRET, here and at the receiver")
    return ok(f"signed with {counted(len(settings.webhook_secret), 'secret')}" if settings.webhook_secret else "none")
