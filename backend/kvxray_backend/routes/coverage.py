"""`/api/coverage`: for every panel of the product how sure it is of a source, why, and what spoils it."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from kvxray_backend.api_types import Answer
from kvxray_backend.coverage import PanelCoverage, coverage_of
from kvxray_backend.coverage_of_blocks import known_of_blocks
from kvxray_backend.moments import Moment
from kvxray_backend.residency.foreign_source import ForeignSource
from kvxray_backend.residency.view import known_of
from kvxray_backend.routes.dependencies import AnySourceDep, DeskDep

router = APIRouter(tags=["residency"])


class CoverageView(Answer):
    """What can be known of a source."""

    source: str = Field(description="The source.")
    panels: list[PanelCoverage] = Field(description="Every panel, in the order of the pages.")


@router.get("/coverage")
def coverage(desk: DeskDep, source: AnySourceDep) -> CoverageView:
    """Every panel: exact, derived or not observable, and one sentence why."""
    if isinstance(source, ForeignSource):
        return CoverageView(source=source.name, panels=coverage_of(known_of(desk.at(source, Moment()))))
    return CoverageView(source=source.live.source, panels=coverage_of(known_of_blocks(source.live)))
