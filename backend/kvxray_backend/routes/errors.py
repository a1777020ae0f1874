"""How the API says no: always `{"error": "one sentence"}`, with the status that fits."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from kvxray_engine.errors import UserError
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.time_travel import NotStored
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

logger = logging.getLogger(__name__)


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: str = Field(description="One sentence that says what is wrong and, where there is a way, what to do.")
    field: str | None = Field(
        default=None, description="The field of the request that is to blame; left out where there is not one."
    )


class ApiError(Exception):
    """A request that cannot be answered; `sentence` is the whole of what the caller reads."""

    def __init__(self, status: int, sentence: str, field: str = "") -> None:
        """field: the one of the request that is to blame, empty: none alone."""
        super().__init__(sentence)
        self.status = status
        self.field = field


def install_error_handlers(app: FastAPI) -> None:
    """Turns every kind of refusal inside the app into an `ErrorBody`."""

    @app.exception_handler(ApiError)
    async def api_error(_: Request, error: ApiError) -> JSONResponse:
        return _answer(error.status, str(error), field=error.field)

    @app.exception_handler(UserError)
    async def user_error(_: Request, error: UserError) -> JSONResponse:
        return _answer(400, str(error), field=getattr(error, "field", ""))

    @app.exception_handler(NotStored)
    async def not_stored(_: Request, error: NotStored) -> JSONResponse:
        return _answer(404, str(error))

    @app.exception_handler(DamagedChunk)
    async def damaged(_: Request, error: DamagedChunk) -> JSONResponse:
        logger.error("The event log is damaged: %s", error)
        return _answer(500, f"What is stored of that moment is damaged: {error}")

    @app.exception_handler(SQLAlchemyError)
    async def database_error(_: Request, error: SQLAlchemyError) -> JSONResponse:
        logger.warning("The database could not be read: %s", error)
        return _answer(503, "The event log cannot be read just now; /api/health tells how it is.")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return _answer(422, "The body is not JSON; /api/docs says what goes in it.")
        name = str(first["loc"][-1]) if first["loc"] else "request"
        return _answer(422, f"Mend {name}: {first['msg'][:1].lower()}{first['msg'][1:]}.")

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        return _answer(error.status_code, f"{str(error.detail).rstrip('.')}.", error.headers)

    # Whatever else it is goes on to the log, with its traceback.
    @app.exception_handler(Exception)
    async def mistake(_: Request, error: Exception) -> JSONResponse:
        return _answer(500, "kvxray made a mistake over this request; its log tells which.")


def _answer(status: int, sentence: str, headers: object = None, field: str = "") -> JSONResponse:
    extra = dict(headers) if isinstance(headers, dict) else None
    body = {"error": sentence, **({"field": field} if field else {})}
    return JSONResponse(body, status_code=status, headers=extra)
