"""`/metrics`: what kvxray knows, and how it is itself, for a Prometheus. Below the base path, not under /api."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response
from kvxray_engine.server.prometheus_text import CONTENT_TYPE, OPEN_METRICS
from starlette.requests import HTTPConnection

from kvxray_backend.exporter.asked_for import takes_gzip, wants_open_metrics
from kvxray_backend.exporter.exporter import Exporter
from kvxray_backend.routes.overview import OverviewDep

router = APIRouter(include_in_schema=False)


def get_exporter(connection: HTTPConnection, overview: OverviewDep) -> Exporter:
    """That of the running backend, made when it is first asked for."""
    kept = getattr(connection.app.state, "exporter", None)
    if not isinstance(kept, Exporter) or kept.overview is not overview:
        kept = connection.app.state.exporter = Exporter(overview)
    return kept


@router.api_route("/metrics", methods=["GET", "HEAD"])
def metrics(
    exporter: Annotated[Exporter, Depends(get_exporter)],
    accept: Annotated[str, Header()] = "",
    accept_encoding: Annotated[str, Header()] = "",
) -> Response:
    """All metrics, as text of Prometheus or as OpenMetrics."""
    open_metrics, gzipped = wants_open_metrics(accept), takes_gzip(accept_encoding)
    headers = {"cache-control": "no-store", "vary": "accept, accept-encoding"}
    if gzipped:
        headers["content-encoding"] = "gzip"
    page = exporter.page(open_metrics=open_metrics, gzipped=gzipped)
    return Response(page, media_type=OPEN_METRICS if open_metrics else CONTENT_TYPE, headers=headers)
