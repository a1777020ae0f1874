"""The command line: one sub-command a job. Mistakes of the user are one sentence and exit code 2, never a traceback.

Only the standard library is imported until a command runs, so that `kvxray --help` works in the smallest installation.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Final, NoReturn, Protocol, cast

from kvxray_engine.errors import UserError

COMMANDS: Final = (
    "demo",
    "serve",
    "observe",
    "record",
    "inspect",
    "replay",
    "engine",
    "model",
    "storage",
    "doctor",
    "alerts",
    "dashboard",
    "bench",
    "calc",
)


class Command(Protocol):
    """A module of `kvxray_backend.commands`."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence and where to read more."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message[:1].lower()}{message[1:]}. Try `{self.prog} --help`.\n")


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Tells defaults, where there is one to tell."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default == "":
            return action.help
        return super()._get_help_string(action)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    _give_output_somewhere_to_go()
    try:
        return _run(arguments)
    except UserError as error:
        sys.stderr.write(f"kvxray: {error}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        sys.stderr.write(f"kvxray: {_missing(error)}\n")
        return 2
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: Sequence[str] | None) -> int:
    parser = build_parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        # Said by the command whose help has the right ones.
        parser.prog = " ".join(name for name in (parser.prog, options.command) if name)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command is None:
        parser.print_help()
        return 0
    return load_command(options.command).run(options)


def _give_output_somewhere_to_go() -> None:
    """A process started with its outputs closed has none; what it says then goes nowhere, and is no error."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (as long as the process)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kvxray",
        description="An X-ray for the KV cache of LLM inference engines: see what every block holds, who holds it, "
        "what leaks and what gets evicted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kvxray {metadata.version('kvxray')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name in COMMANDS:
        command = load_command(name)
        child = commands.add_parser(
            name, help=command.SUMMARY, description=command.__doc__, allow_abbrev=False,
            formatter_class=_Help,
        )  # fmt: skip
        command.add_arguments(child)
    return parser


def load_command(name: str) -> Command:
    module: Any = importlib.import_module(f"kvxray_backend.commands.{name}")
    return cast("Command", module)


def _missing(error: ModuleNotFoundError) -> str:
    extra = "engine" if error.name in {"torch", "tokenizers", "safetensors", "gguf", "jinja2"} else "dashboard"
    return f"This command needs the package {error.name!r}, which is not installed. Run: pip install 'kvxray[{extra}]'."


if __name__ == "__main__":
    sys.exit(main())
