"""The OpenAPI description: FastAPI's, with the answers to errors as they really are."""

from __future__ import annotations

import threading
from typing import Any, ClassVar, Final

from fastapi import FastAPI

_SCHEMAS: Final[dict[str, Any]] = {
    "Detail": {
        "type": "object",
        "description": "Why a request was not answered as it was meant.",
        "properties": {"detail": {"type": "string", "description": "The reason, in words."}},
        "required": ["detail"],
    },
    "FieldErrors": {
        "type": "object",
        "description": "What is wrong, by the field or parameter that it is wrong in.",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    },
    "ConflictDetail": {
        "type": "object",
        "description": "Why a request contradicts what is stored.",
        "properties": {
            "detail": {"type": "string", "description": "The reason, in words."},
            "code": {"type": "string", "description": "The reason, as a word for programs."},
        },
        "required": ["detail", "code"],
        "additionalProperties": True,
    },
}


def _answer(description: str, schema: str, **headers: str) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": description,
        "content": {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}},
        },
    }
    if headers:
        answer["headers"] = {
            name.replace("_", "-"): {"description": words, "schema": {"type": "string"}}
            for name, words in headers.items()
        }
    return answer


_BAD: Final = _answer("A field or parameter is unknown or wrong.", "FieldErrors")
_TOKEN: Final = _answer("No token, or one that is not valid.", "Detail")
_ABSENT: Final = _answer("There is no such object or page.", "Detail")
_AWAY: Final = _answer(
    "The database is away or too busy.",
    "Detail",
    Retry_After="Seconds to wait before the next try.",
)


class Application(FastAPI):
    """FastAPI with our description."""

    _made: ClassVar[dict[str, Any]] = {}
    _making: ClassVar[threading.Lock] = threading.Lock()
    _parameters: ClassVar[dict[tuple[str, str], frozenset[str]]] = {}

    def openapi(self) -> dict[str, Any]:
        """The description; made once in a process: it takes more than a second, and is the same."""
        with self._making:
            if not self._made:
                self._made.update(_completed(super().openapi()))
        return self._made

    def query_parameters(self, path: str, method: str) -> frozenset[str]:
        """The names that a route takes in its query; worked out once, too."""
        known = self._parameters.get((path, method))
        if known is None:
            operation: dict[str, Any] = self.openapi()["paths"].get(path, {}).get(method, {})
            known = self._parameters[path, method] = frozenset(
                p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"
            )
        return known


def _completed(description: dict[str, Any]) -> dict[str, Any]:
    schemas = description["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update(_SCHEMAS)
    for path, methods in description["paths"].items():
        for operation in methods.values():
            answers = operation["responses"]
            # what FastAPI would answer to a bad request is 400 here
            answers.pop("422", None)
            if path != "/healthz":
                answers.setdefault("400", _BAD)
            if operation.get("security"):
                answers.setdefault("401", _TOKEN)
            pages = any(p["name"] == "page" for p in operation.get("parameters", ()))
            if "{" in path or pages:
                answers.setdefault("404", _ABSENT)
            if operation.get("security") or path.startswith("/api/v2/ping"):
                answers.setdefault("503", _AWAY)
            for code, schema in (("405", "Detail"), ("409", "ConflictDetail")):
                if code in answers:
                    answers[code] = _answer(answers[code]["description"], schema)
    return description
