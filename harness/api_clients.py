"""`python -m harness.api_clients` (`make clients`): other people's tools on the OpenAPI document of a controller.

Spectral and Redocly check it. OpenAPI Generator makes a Python and a TypeScript client of it, and each of them calls a
real `swath serve`: api-clients/call.py and call.ts. Exits 1 when a tool finds anything or a call fails.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from harness import interruption
from harness.served_controller import MODULE, Served, environment_of, serving

__all__ = ["main"]

TOOL_SECONDS: Final = 600.0
GENERATOR_JAR: Final = "openapi_generator_cli/openapi-generator.jar"


class Tools:
    """Where `make clients` has installed them. `sources` is the folder api-clients."""

    def __init__(self, npm: Path, python: Path, sources: Path) -> None:
        self._bin = npm / "node_modules/.bin"
        self.python = python
        self.sources = sources

    def npm(self, name: str) -> str:
        """A command of an npm package."""
        return str(self._bin / name)

    def generator(self) -> list[str]:
        """OpenAPI Generator, which a Python package carries."""
        look = "import openapi_generator_cli; print(openapi_generator_cli.__path__[0])"
        found = subprocess.run([str(self.python), "-c", look], capture_output=True, text=True, check=True)
        return ["java", "-jar", str(Path(found.stdout.strip()).parent / GENERATOR_JAR)]


class ToolRuns:
    """Runs one tool after the other; the output of each goes to a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def run(self, name: str, command: list[str], folder: Path | None = None) -> bool:
        """Whether it was content."""
        report = self.folder / f"{name.replace(' ', '-')}.txt"
        with report.open("wb") as told:
            cwd = folder or self.folder
            code = subprocess.run(
                command, cwd=cwd, stdout=told, stderr=told, stdin=subprocess.DEVNULL, timeout=TOOL_SECONDS, check=False
            ).returncode
        print(f"  {name}: {'clean' if code == 0 else f'failed with exit code {code}'}", flush=True)
        if code:
            lines = report.read_text(encoding="utf-8", errors="replace").splitlines()
            self.problems += [f"{name}: see {report}", *lines[-20:]]
        return code == 0


def main(arguments: list[str] | None = None) -> int:
    """Takes all turns, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    tools = Tools(options.npm.resolve(), options.python.absolute(), options.sources.resolve())
    interruption.install()  # so that processes are ended on the way out
    folder = Path(tempfile.mkdtemp(prefix="swath-clients-"))
    print(f"clients in {folder}", flush=True)
    turns = ToolRuns(folder)
    key = _make_key(folder / "data")
    with serving(folder / "data") as served:
        document = _document(served, folder)
        turns.run("spectral", _spectral(tools, document))
        turns.run("redocly", [tools.npm("redocly"), "lint", str(document), "--max-problems", "1000"])
        _python(turns, tools, document, served, key)
        _typescript(turns, tools, document, served, key)
        served.stop()
    print("\n".join(turns.problems) or "nothing was found", flush=True)
    if not turns.problems:
        shutil.rmtree(folder)
    return 1 if turns.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.api_clients", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--npm", type=Path, default=Path(".clients"), metavar="DIR", help="where npm has its packages")
    parser.add_argument(
        "--python", type=Path, default=Path(".venv-clients/bin/python"), metavar="FILE", help="runs the Python client"
    )
    parser.add_argument("--sources", type=Path, default=Path("api-clients"), metavar="DIR", help="with the callers")
    return parser


def _make_key(data: Path) -> str:
    data.mkdir()
    command = [sys.executable, "-m", MODULE, "keys", "create", "clients", "--scope", "submit"]
    made = subprocess.run(command, env=environment_of(data), capture_output=True, text=True, check=True)
    return made.stdout.strip()


def _document(served: Served, folder: Path) -> Path:
    connection = served.connect()
    try:
        connection.request("GET", "/openapi.json")
        document = folder / "openapi.json"
        document.write_bytes(connection.getresponse().read())
    finally:
        connection.close()
    return document


def _spectral(tools: Tools, document: Path) -> list[str]:
    rules = tools.sources / "spectral.yaml"
    return [tools.npm("spectral"), "lint", str(document), "--ruleset", str(rules), "--fail-severity", "warn"]


def _python(turns: ToolRuns, tools: Tools, document: Path, served: Served, key: str) -> None:
    made = turns.folder / "python"
    options = ["-g", "python", "-o", str(made), "--additional-properties=packageName=swath_client"]
    if turns.run("python client", [*tools.generator(), "generate", "-i", str(document), *options]):
        shutil.copy(tools.sources / "call.py", made)
        turns.run("python calls", [str(tools.python), "call.py", served.url, key], made)


def _typescript(turns: ToolRuns, tools: Tools, document: Path, served: Served, key: str) -> None:
    made = turns.folder / "typescript"
    options = ["-g", "typescript-fetch", "-o", str(made / "client")]
    if not turns.run("typescript client", [*tools.generator(), "generate", "-i", str(document), *options]):
        return
    for name in ("call.ts", "tsconfig.json"):
        shutil.copy(tools.sources / name, made)
    if turns.run("typescript types", [tools.npm("tsc")], made):
        turns.run("typescript calls", ["node", "out/call.js", served.url, key], made)


if __name__ == "__main__":
    sys.exit(main())
