"""The pages on commands and settings say what the code says, and prose names only commands that exist."""

from collections.abc import Iterator

import click
import pytest

from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.main import root
from swath.settings import Settings, load_settings
from tests.docs.pages import ROOT, code_in, prose_of, rows_of, section_of

pytestmark = pytest.mark.req("G1")

COMMAND_LINE = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")


def commands(group: click.Group, path: str = "swath") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def options_of(command: click.Command) -> dict[str, click.Option]:
    return {p.opts[0]: p for p in command.params if isinstance(p, click.Option) and not p.hidden}


def listed_options(section: str) -> dict[str, str]:
    """Option → default, as the page has it."""
    return {cells[0].strip("`").split()[0]: cells[1].strip("`") for cells in rows_of(section)}


COMMANDS = dict(commands(root))


@pytest.mark.req("C1")
@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_its_section_with_its_options(path: str) -> None:
    command = COMMANDS[path]
    arguments = [str(p.make_metavar(click.Context(command))) for p in command.params if isinstance(p, click.Argument)]
    listed = listed_options(section_of(COMMAND_LINE, f"## `{' '.join([path, *arguments])}`"))
    if "--id-column" in options_of(command):
        listed |= listed_options(section_of(COMMAND_LINE, "## Options of a job"))
    if "--server" in options_of(command):
        listed |= listed_options(section_of(COMMAND_LINE, "## On a controller"))
    assert listed.keys() == options_of(command).keys()
    for name, option in options_of(command).items():
        if option.show_default and option.default is not None:
            default = f"{option.default:g}" if isinstance(option.default, float) else str(option.default)
            assert listed[name] == default, name


def test_both_commands_that_make_jobs_take_the_same_options() -> None:
    elsewhere = {"--server", "--insecure"}  # a job is run where its store is, and may be created from anywhere
    assert options_of(COMMANDS["swath run"]).keys() == options_of(COMMANDS["swath jobs create"]).keys() - elsewhere


@pytest.mark.req("C2")
def test_every_exit_code_is_told() -> None:
    rows = rows_of(section_of(COMMAND_LINE, "## Exit codes"))
    assert [int(code) for code, _ in rows] == [code.value for code in ExitCode]


MENTIONS = [
    (str(file.relative_to(ROOT)), code)
    for file in [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    for code in code_in(prose_of(file.read_text(encoding="utf-8")))
    if code.startswith("swath ")
]


@pytest.mark.parametrize(("where", "mention"), sorted(set(MENTIONS)))
def test_a_command_named_in_prose_exists_with_its_options(where: str, mention: str) -> None:
    words = mention.split()
    path = next((path for n in (3, 2) if (path := " ".join(words[:n])) in COMMANDS), None)
    groups = {known.rpartition(" ")[0] for known in COMMANDS}
    assert path is not None or mention in {"swath --help", "swath --version", *groups}, f"{where} names {mention!r}"
    for option in (word.split("=")[0] for word in words if word.startswith("--")):
        assert path is None or option in {*options_of(COMMANDS[path]), "--help"}, f"{where} names {mention!r}"


@pytest.mark.req("T3")
def test_every_setting_is_told_with_its_default() -> None:
    table = SETTINGS.partition("## The settings file")[0]
    listed = {cells[0].strip("`"): cells[1].strip("`") for cells in rows_of(table)}
    assert listed.keys() == {f"SWATH_{name.upper()}" for name in Settings.__struct_fields__}
    default = Settings()
    for name in ("data", "lease_seconds", "grace_seconds", "max_items", "log_level"):
        value = getattr(default, name)
        assert listed[f"SWATH_{name.upper()}"] == (f"{value:g}" if isinstance(value, (int, float)) else str(value))
    assert listed["SWATH_FSYNC"] == str(int(default.fsync))
    assert load_settings({"SWATH_LEASE_SECONDS": "9"}).heartbeat_seconds == 3  # "a third of the lease"
