"""A number as the API gives it: never alone, always with how sure it is, since when, and what spoils it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Certainty = Literal["exact", "derived", "not_observable"]
Unit = Literal["blocks", "ratio", "per_second", "seconds", "tokens", "requests", "bytes", "references"]


class Figure(BaseModel):
    """`value` is null when there is nothing to say: no data, or not known. Unknown is never 0."""

    model_config = ConfigDict(frozen=True)

    value: float | int | None = Field(description="The number; null when there is nothing to say.")
    unit: Unit = Field(description="What is counted.")
    certainty: Certainty = Field(
        default="exact", description="exact, derived or not_observable; what a finding spoils is never exact."
    )
    since_seq: str | None = Field(default=None, description="EPOCH.SEQ from which on it is known.")
    taints: tuple[str, ...] = Field(default=(), description="Ids of open findings that spoil it.")

    @model_validator(mode="after")
    def _is_not_told_of_what_cannot_be(self) -> Self:
        if self.certainty == "not_observable" and self.value is not None:
            raise ValueError("what is not observable has no value")
        return self
