"""What is wrong with a request that has not the form of its route, in our words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, get_args, get_type_hints

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.routing import BaseRoute

from bestarm.checks import suggestion

_DESCRIBED = "GET /api/v1/openapi.json describes it."
# What a value must be, and the remedy, by Pydantic's kinds of errors. A union has one per member.
_EXPECTED: dict[str, tuple[str, str]] = {
    "bool_type": ("true or false", _DESCRIBED),
    "int_type": ("a whole number", _DESCRIBED),
    "int_from_float": ("a whole number", _DESCRIBED),
    "int_parsing": ("a whole number", _DESCRIBED),
    "int_parsing_size": ("a smaller number", "Send a smaller number."),
    "float_type": ("a number", _DESCRIBED),
    "finite_number": ("a finite number", "Send a smaller number."),
    "string_type": ("a text", _DESCRIBED),
    "string_unicode": ("a text of whole characters", "Send it in UTF-8."),
    "string_too_short": ("a text of at least {min_length} characters", "Send a longer text."),
    "string_too_long": ("a text of at most {max_length} characters", "Send a shorter text."),
    "list_type": ("a list", _DESCRIBED),
    "too_short": ("a list of at least {min_length} entries", "Send more entries."),
    "too_long": ("a list of at most {max_length} entries", "Send fewer entries."),
    "dict_type": ("an object", _DESCRIBED),
    "model_type": ("an object", _DESCRIBED),
    "model_attributes_type": ("an object", _DESCRIBED),
    "literal_error": ("{expected}", _DESCRIBED),
    "greater_than": ("greater than {gt:g}", "Send a larger number."),
    "greater_than_equal": ("at least {ge:g}", "Send a larger number."),
    "less_than": ("less than {lt:g}", "Send a smaller number."),
    "less_than_equal": ("at most {le:g}", "Send a smaller number."),
    "value_error": ("{error}", _DESCRIBED),  # of a validator of ours
}
_OTHER = ("of another form", _DESCRIBED)
_NUMBERS = {"bool_type", "int_type", "float_type"}

Place = tuple[str | int, ...]


class Fault(NamedTuple):
    """What is wrong with a request."""

    message: str
    field: str
    value: object
    remedy: str


def find_fault(error: RequestValidationError, route: BaseRoute | None) -> Fault:
    """The first thing that is wrong, as deep in the body as it can be located."""
    errors: Sequence[dict[str, Any]] = error.errors()
    places = [_place(each["loc"], error.body, missing=each["type"] == "missing") for each in errors]
    first = places[0]
    place = max((each for each in places if each[: len(first)] == first), key=len)
    found = [each for each, where in zip(errors, places, strict=True) if where == place]
    kind, value = found[0]["type"], found[0]["input"]
    field = ".".join(map(str, place)) or "body"
    if kind == "missing":
        return Fault(f"`{field}` is missing.", field, None, "Send it.")
    if kind == "extra_forbidden":
        known = _names(_body_of(route), place[:-1])
        remedy = suggestion(str(place[-1]), known) or f"Known are {', '.join(known)}."
        return Fault(f"`{field}` is not known.", field, value, remedy)
    remedies = [_EXPECTED.get(each["type"], _OTHER)[1] for each in found]
    remedy = next((each for each in remedies if each != _DESCRIBED), _DESCRIBED)
    wanted = [
        _EXPECTED.get(each["type"], _OTHER)[0].format(**each.get("ctx", {})) for each in found
    ]
    if isinstance(value, str) and any(each["type"] in _NUMBERS for each in found):
        remedy = "Send it without quotes if it is one."
    elif kind == "string_type" and len(found) == 1 and isinstance(value, (int, float)):
        remedy = "Send it in quotes."
    expected = ", or ".join(dict.fromkeys(wanted))
    return Fault(f"`{field}` must be {expected}; got {_shown(value)}.", field, value, remedy)


def _place(loc: Sequence[str | int], body: object, *, missing: bool) -> Place:
    """Where an error is in a request, without the members of unions that Pydantic names."""
    source, *parts = loc
    if source != "body":
        return tuple(parts)
    place: list[str | int] = []
    value: Any = body
    for number, part in enumerate(parts, 1):
        try:
            value = value[part]
        except (TypeError, LookupError):
            if not missing or number < len(parts):
                continue
        place.append(part)
    return tuple(place)


def _body_of(route: BaseRoute | None) -> object:
    """The type of the body that a route takes."""
    return get_type_hints(getattr(route, "endpoint", None)).get("body")


def _names(kind: object, place: Place) -> list[str]:
    """The names that an object at a place of a body may have."""
    models = list(_models(kind))
    for part in place:
        if isinstance(part, str):
            fields = [each.model_fields[part] for each in models if part in each.model_fields]
            models = [model for each in fields for model in _models(each.annotation)]
    return [name for model in models for name in model.model_fields]


def _models(kind: object) -> Iterator[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _shown(value: object) -> str:
    """A value as JSON writes it; of what is large, its kind."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # among others, a number of very many digits
        return "something else"
    return text if len(text) <= 60 else f"{text[:59]}…"
