"""A dashboard of Grafana for the metrics of kvxray, as JSON to import or to put where Grafana finds it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

SUMMARY: Final = "print a Grafana dashboard for the metrics of kvxray"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default="", help="where people open kvxray; KVXRAY_PUBLIC_URL when left out")


def run(options: argparse.Namespace) -> int:
    from kvxray_backend.exporter.dashboard import dashboard
    from kvxray_backend.settings import load_settings

    url = options.url or load_settings().public_url
    sys.stdout.write(json.dumps(dashboard(url.rstrip("/")), indent=1) + "\n")
    return 0
