"""Whether the server lives (``/healthz``), can do its work (``/readyz``), and what it counts (``/metrics``)."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from dispatcher.api.services import Services, ServicesParameter
from dispatcher.db.schema_check import check_schema
from dispatcher.errors import SchemaError, Unavailable
from dispatcher.health import metrics_text

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = Field("ok", description="Always `ok`.")


class Readiness(BaseModel):
    """What the server needs, each by name: `ok`, or what is wrong."""

    status: Literal["ok", "degraded", "unavailable"] = Field(
        description="`degraded`: without the broker jobs are accepted and start a little later;"
        " `unavailable`: nothing works without the database or with a schema that does not fit."
    )
    database: str = Field(description="`ok`, or why the database cannot be used.")
    schema_: str = Field(
        alias="schema", description="`ok`, or why the database's schema does not fit this code."
    )
    broker: str = Field(description="`ok`, or why the broker cannot be used.")


def look(services: Services) -> dict[str, str]:
    """Try database, schema and broker; note whether the schema may be written to."""
    found = {"database": "ok", "schema": "ok", "broker": "ok"}
    try:
        with services.reading() as connection:
            check_schema(connection)
        services.unfit = ""
    except Unavailable as error:
        found |= {"database": str(error), "schema": "not known"}
    except SchemaError as error:
        found["schema"] = services.unfit = str(error)
    if not services.publisher.warm():
        found["broker"] = "not reachable"
    return found


@router.get("/healthz", summary="Is the process alive?", response_model=Alive)
async def healthz() -> Alive:
    """Answers without database, broker or thread: it says only that the process is not stuck."""
    return Alive()


@router.get(
    "/readyz",
    summary="Can the server do its work?",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "The database or its schema is missing."}},
)
def readyz(services: ServicesParameter, response: Response) -> dict[str, str]:
    """Tries database, schema and broker.

    The answer is 200 without the broker too: jobs are accepted all the same, so a server must not
    be taken out of service for it.
    """
    found = look(services)
    working = found["database"] == "ok" and found["schema"] == "ok"
    response.status_code = 200 if working else 503
    if not working:
        return {"status": "unavailable", **found}
    return {"status": "ok" if found["broker"] == "ok" else "degraded", **found}


@router.get(
    "/metrics",
    summary="This process's metrics in Prometheus' text form",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def process_metrics() -> Response:
    """As every other role serves them; those of the whole cluster are at ``/api/v2/metrics/``."""
    return Response(metrics_text(), media_type=CONTENT_TYPE_LATEST)


def missing(services: Services) -> dict[str, str]:
    """What is missing, for the role's health file."""
    return {name: words for name, words in look(services).items() if words != "ok"}
