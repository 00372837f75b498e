"""Site policies: reads and writes them as YAML, lays the operator's file over the shipped one, finds a URL's site.

A mistake in a file is reported in one line with its field; a policy is written back without loss.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec
import yaml
from pydantic import BaseModel, ValidationError

from swath.domain.errors import BadInput
from swath.domain.site_policy import SitePolicy
from swath.fetch.sites.strict_yaml import parse_yaml, write_yaml

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["PolicyFile", "Site", "SiteDirectory", "parse_policies", "read_policies", "write_policies"]

_LIMIT_BYTES: Final = 4 << 20
_PARTS: Final = ("default", "sites")
_NAME: Final = re.compile(r"(?!job:)[\w\[][\w.:\[\]-]{0,99}")  # buckets of jobs are named job:…
_PYDANTIC_PREFIX: Final = re.compile(r"^(Value error, |Input )")


class PolicyFile(NamedTuple):
    """What a file says, and no more: fields that it leaves out are unset."""

    default: SitePolicy
    sites: dict[str, SitePolicy]


def read_policies(path: Path) -> PolicyFile:
    """Raises BadInput, in one line with the file, the field and what to do."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise BadInput(f"{path}: there is no such file of site policies; check the path") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > _LIMIT_BYTES:
        raise BadInput(f"{path}: is larger than {_LIMIT_BYTES >> 20} MiB, which no file of site policies is")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}: line {line}: is not UTF-8 text; save it as UTF-8") from None
    return parse_policies(text, str(path))


def parse_policies(text: str, name: str) -> PolicyFile:
    """The same for text that is at hand; `name` is what messages call it."""
    try:
        return _checked(parse_yaml(text))
    except RecursionError:
        raise BadInput(f"{name}: is nested too deep for site policies") from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise BadInput(f"{name}: {line}{error.problem}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise BadInput(f"{name}: {' '.join(str(error).split())}") from None


def write_policies(file: PolicyFile) -> str:
    """YAML that reads back as the same."""
    content = {"default": file.default.as_yaml(), "sites": {name: own.as_yaml() for name, own in file.sites.items()}}
    return write_yaml(content)


# -- checking ----------------------------------------------------------------------------------------------------------


def _checked(content: object) -> PolicyFile:
    parts = _mapping(content, "")
    for part in parts:
        if part not in _PARTS:
            raise ValueError(
                f"{part}: is not known{_suggestion(str(part), _PARTS) or '; sites are listed under `sites:`'}"
            )
    default = _policy(parts.get("default"), "default")
    if default.domains:
        raise ValueError("default.domains: the default is for every site without an entry; remove it")
    entries = _mapping(parts.get("sites"), "sites")
    return PolicyFile(default, {_site_name(name): _entry(name, own) for name, own in entries.items()})


def _mapping(value: object, path: str) -> dict[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{path + ': ' if path else ''}is not a mapping of names to values")
    return value


def _site_name(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"sites.{name}: is no text; write the name in quotes")
    if not _NAME.fullmatch(name):
        raise ValueError(f"sites.{name}: is no name; use letters, digits, '.', ':', '_' and '-', at most 100")
    return name


def _entry(name: str, value: object) -> SitePolicy:
    own = _policy(value, f"sites.{name}")
    if not own.domains:
        try:
            SitePolicy(domains=(name,))
        except ValidationError:
            raise ValueError(f"sites.{name}: has no domains, and its name is none; add domains") from None
    return own


def _policy(value: object, path: str) -> SitePolicy:
    try:
        # By way of JSON, where strict means: no "8" for 8 and no true for 1, but enums may be written as text.
        policy = SitePolicy.model_validate_json(json.dumps(_mapping(value, path)), strict=True)
        _check_selectors(policy, path)
    except ValidationError as error:
        # A misspelt name comes first: that another one is missing follows from it.
        problems = sorted(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        field = ".".join((path, *(str(part) for part in problems[0]["loc"])))
        raise ValueError(f"{field}: {_describe(problems[0])}{more}") from None
    except TypeError:  # by a tag such as !!binary or !!timestamp
        raise ValueError(f"{path}: holds something that is neither text, a number, a list nor a mapping") from None
    return policy


def _check_selectors(policy: SitePolicy, path: str) -> None:
    """Asks the parser itself, which is loaded for this only if there is something to ask."""
    for number, signature in enumerate(policy.signatures):
        if signature.css is None:
            continue
        from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 see above

        try:
            LexborHTMLParser("<p>").css_first(signature.css)
        except Exception:  # noqa: BLE001 whatever it raises, it cannot use the selector
            raise ValueError(f"{path}.signatures.{number}.css: is no CSS selector: {signature.css!r}") from None


def _describe(problem: ErrorDetails) -> str:
    if problem["type"] == "extra_forbidden":
        names = _names_beside(problem["loc"])
        return f"is not known{_suggestion(str(problem['loc'][-1]), names) or '; allowed: ' + ', '.join(names)}"
    if problem["type"] == "missing":
        return "is missing"
    said = " ".join(_PYDANTIC_PREFIX.sub("", problem["msg"]).split()).replace("an object", "a mapping")
    if problem["type"] == "value_error":
        return said
    given = repr(problem["input"])
    return f"{said} (is {given if len(given) <= 60 else given[:59] + '…'})"


def _suggestion(name: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def _names_beside(path: Sequence[int | str]) -> list[str]:
    """The names allowed where the last part of the path stands, as they are written in a file."""
    model: type[BaseModel] = SitePolicy
    for part in path[:-1]:
        field = _fields(model).get(str(part))
        model = (field and _model_in(field.annotation)) or model
    return list(_fields(model))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_in(inner))), None)


# -- YAML --------------------------------------------------------------------------------------------------------------


_ADDRESS: Final = re.compile(r"(?:(https?)://)?(?:[^/?#\\]*@)?(\[[^\]/?#\\]*\]|[^:/?#\\]*)(?::(\d+))?", re.IGNORECASE)
_PORTS: Final = {"http": "80", "https": "443"}
_MOST_KNOWN: Final = 10_000  # addresses remembered; a crawl of the whole web must not fill the memory


class Site(msgspec.Struct, frozen=True):
    """What shares one bucket, one concurrency and one circuit, by its name; its policy has no unset parts."""

    name: str
    policy: SitePolicy


class SiteDirectory:
    """`default` is how a site without an entry is visited; `sites` are those that have one, by their names."""

    def __init__(self, file: PolicyFile) -> None:
        self._file = file
        self.default = file.default
        self.sites: Mapping[str, Site] = {
            name: Site(name, _inherit(file.default, own)) for name, own in file.sites.items()
        }
        self._by_domain = {
            domain: self.sites[name] for name, own in file.sites.items() for domain in _domains(name, own)
        }
        self._known: dict[str, Site] = {}

    @classmethod
    def load(cls, path: Path | None, extra: Mapping[str, Sequence[str]] | None = None) -> SiteDirectory:
        """Raises BadInput for a file that cannot be used.

        `extra` adds domains to entries; those that an entry of the operator claims stay with it.
        """
        file = _shipped_policies()
        if path is not None:
            written = read_policies(path)
            _refuse_shared_domains(written, path)
            file = _overlay(file, written)
        return cls(_with_domains(file, extra or {}))

    def of(self, address: str) -> Site:
        """The site of a URL, a host or a host:port."""
        found = _ADDRESS.match(address)
        key = found[0] if found else address
        site = self._known.get(key)
        if site is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            scheme, host, port = found.groups() if found else (None, address, None)
            site = self._known[key] = self._find(_normalized_host(host), port or _PORTS.get((scheme or "").lower()))
        return site

    def dump(self) -> str:
        """All of it as YAML, shipped entries too. Reads back as the same; comments are lost."""
        return write_policies(self._file)

    def _find(self, host: str, port: str | None) -> Site:
        site = self._by_domain.get(f"{host}:{port}") or self._by_domain.get(host)
        if site is None and not host.rpartition(".")[2].isdigit():  # addresses have no parents
            parent = host
            while site is None and "." in parent:
                parent = parent.partition(".")[2]
                site = self._by_domain.get(parent)
        return site or Site(host.removeprefix("www."), self.default)


def _normalized_host(host: str) -> str:
    """As domains are written in policies: small letters, no dot at the end, IDNA."""
    host = host.rstrip(".").lower()
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host  # the transport will refuse it


# -- putting files together --------------------------------------------------------------------------------------------


@cache
def _shipped_policies() -> PolicyFile:
    text = resources.files("swath.fetch.sites").joinpath("shipped.yaml").read_text(encoding="utf-8")
    return parse_policies(text, "shipped site policies")


def _domains(name: str, own: SitePolicy) -> tuple[str, ...]:
    return own.domains or (name,)


def _inherit(base: SitePolicy, own: SitePolicy) -> SitePolicy:
    """Field by field, each whole: an entry with a rate of its own takes nothing from the default's rate."""
    return base.model_copy(update={field: getattr(own, field) for field in own.model_fields_set})


def _refuse_shared_domains(file: PolicyFile, path: Path) -> None:
    owners: dict[str, str] = {}
    for name, own in file.sites.items():
        for domain in _domains(name, own):
            owner = owners.setdefault(domain, name)
            if owner != name:
                raise BadInput(
                    f"{path}: sites.{name}.domains: {domain} belongs to site {owner!r} already; name it in one of them"
                )


def _overlay(shipped: PolicyFile, written: PolicyFile) -> PolicyFile:
    """The operator's word wins: over a field, over a whole entry, and over which entry a domain belongs to."""
    merged = {name: _inherit(shipped.sites.get(name, SitePolicy()), own) for name, own in written.sites.items()}
    taken = {domain for name, own in merged.items() for domain in _domains(name, own)}
    kept: dict[str, SitePolicy] = {}
    for name, own in shipped.sites.items():
        left = tuple(domain for domain in _domains(name, own) if domain not in taken)
        if name not in merged and left:
            kept[name] = own if left == _domains(name, own) else own.model_copy(update={"domains": left})
    return PolicyFile(_inherit(shipped.default, written.default), {**kept, **merged})


def _with_domains(file: PolicyFile, extra: Mapping[str, Sequence[str]]) -> PolicyFile:
    claimed = {domain for name, own in file.sites.items() for domain in _domains(name, own)}
    sites = dict(file.sites)
    for name, domains in extra.items():
        new = tuple(domain for domain in domains if domain not in claimed)
        if name in sites and new:
            sites[name] = sites[name].model_copy(update={"domains": (*_domains(name, sites[name]), *new)})
    return PolicyFile(file.default, sites)
