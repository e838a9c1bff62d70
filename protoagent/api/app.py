"""The JSON API: one NinjaAPI, whose failures look like everywhere else (`{"detail": …}`)."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser
from pydantic import ConfigDict

from protoagent import __version__
from protoagent.core.errors import AgentError, BadValue, NotFound
from protoagent.core.text import one_line
from protoagent.security.redaction import one_masked_line
from protoagent.web import bodies, errors

JSON_TYPES = ("application/json", "text/json")
TITLE = "protoAgent console"


class UnsupportedType(AgentError):
    """The body has a content type that is not JSON."""

    code = "unsupported_type"
    status = 415


class Body(Schema):
    """A request body. A field that is not known is refused: a typing error in an optional
    field, `incognitto`, must not be taken for the absence of the field."""

    model_config = ConfigDict(extra="forbid", strict=True)


class StrictParser(Parser):
    """Reads bodies that are JSON by name and by content, up to 1 MiB."""

    def parse_body(self, request: HttpRequest) -> Any:
        content_type = (request.content_type or "").lower()
        if content_type not in JSON_TYPES and not content_type.endswith("+json"):
            named = one_masked_line(content_type, 60) or "nothing"
            raise UnsupportedType(f"send Content-Type: application/json; this says {named}")
        return bodies.parse_json(request.body)


class Api(NinjaAPI):
    """NinjaAPI whose OpenAPI document says how to authenticate."""

    def get_openapi_schema(self, *args: Any, **kwargs: Any) -> Any:
        schema = super().get_openapi_schema(*args, **kwargs)
        schema.setdefault("components", {})["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "session": {"type": "apiKey", "in": "cookie", "name": "protoagent_session"},
        }
        schema["security"] = [{"bearer": []}, {"apiKey": []}, {"session": []}]
        return schema


api = Api(
    title=TITLE,
    version=__version__,
    urls_namespace="api",
    docs_url=None,
    openapi_url="/openapi.json",
    parser=StrictParser(),
)


@api.exception_handler(AgentError)
def agent_error(request: HttpRequest, error: AgentError) -> HttpResponse:
    """A failure with a plain sentence."""
    return errors.respond(request, error)


@api.exception_handler(Http404)
def not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    """No such thing."""
    return errors.respond(request, NotFound("there is nothing at this address"))


@api.exception_handler(HttpError)
def http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    """What the framework refuses; it hides the parser's own reason behind "cannot parse"."""
    cause = error.__cause__
    if isinstance(cause, AgentError):
        return errors.respond(request, cause)
    return api.create_response(request, {"detail": str(error)}, status=error.status_code)


@api.exception_handler(ValidationError)
def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Fields that are missing, unknown or of another type: 400, and `errors` names each."""
    problems = dict(_problem(item) for item in error.errors)
    detail = "; ".join(f"{name}: {why}" for name, why in problems.items())
    response = errors.respond(request, BadValue(one_line(detail, 500)))
    if errors.is_program(request):
        body = {"detail": one_line(detail, 500), "errors": problems}
        return api.create_response(request, body, status=response.status_code)
    return response


def _problem(item: dict[str, Any]) -> tuple[str, str]:
    # The place is ("body", <parameter>, <field> …) for bodies and ("query", <field>) else.
    place = [str(part) for part in item.get("loc", ())]
    skip = 2 if place[:1] == ["body"] and len(place) > 2 else 1
    name = one_masked_line(".".join(place[skip:]), 80) or "body"
    kind = str(item.get("type", ""))
    if kind == "missing":
        return name, "is missing"
    if kind == "extra_forbidden":
        return name, "is not a field of this request"
    return name, one_masked_line(str(item.get("msg", "is not valid")), 200)
