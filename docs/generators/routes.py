"""The page of the HTTP interface, from the application's OpenAPI description."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute

from bestarm.server import create_app
from bestarm.server.api.requests import role_needed

__all__ = ["description", "roles", "route_page"]

_INTRODUCTION = """# HTTP interface

{summary}

Every route names the least [role](../self-host.md#tokens) that may call it. Paths are relative to
the server's address. The body of every error is a [Problem](#problem).

## Errors

| status | meaning |
|---|---|
{errors}
"""


def _app() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(f"sqlite:///{Path(folder) / 'empty.db'}")
        app.state.store.close()
    return app


def description() -> dict[str, Any]:
    """The OpenAPI description of the application."""
    return dict(_app().openapi())


def roles() -> dict[tuple[str, str], str]:
    """The least role that may call each route, by method and path."""
    found: dict[tuple[str, str], str] = {}
    for route in _walk(_app().routes):
        role = role_needed(route)
        if role is not None:
            found |= {(method.lower(), route.path): role.word for method in route.methods or ()}
    return found


def _walk(routes: Iterable[Any]) -> Iterator[APIRoute]:
    for route in routes:
        inner = getattr(route, "original_router", None)  # of a router that was included
        if inner is not None:
            yield from _walk(inner.routes)
        elif isinstance(route, APIRoute):
            yield route


def route_page() -> str:
    """Routes with roles, parameters, bodies, answers and errors, as Markdown."""
    schema, needed = description(), roles()
    summary = schema["info"]["description"].strip()
    parts = [_INTRODUCTION.format(summary=summary, errors=_errors(schema))]
    for path, methods in schema["paths"].items():
        parts += [
            _operation(method, path, operation, needed.get((method, path)), schema)
            for method, operation in methods.items()
        ]
    parts.append("\n## Objects\n")
    parts += [_model(name, model) for name, model in schema["components"]["schemas"].items()]
    return "\n".join(parts)


def _operation(
    method: str, path: str, operation: dict[str, Any], role: str | None, schema: dict[str, Any]
) -> str:
    lines = [f"\n## {operation['summary']}\n", f"```text\n{method.upper()} {path}\n```\n"]
    lines.append(f"{operation['description']}\n")
    if role is not None:
        lines.append(f"Role: `{role}`.\n")
    for each in operation.get("parameters", []):
        optional = "" if each["required"] else ", optional"
        text = _text(each.get("description", ""), each["schema"])
        lines.append(f"- `{each['name']}` ({each['in']}{optional}): {text}")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        lines.append(f"\nBody: {_type(body['schema'])}.\n\n{_example(body['schema'], schema)}")
    answers = sorted(operation["responses"].items())
    for code, answer in answers:
        if code < "400":
            lines += [f"\nAnswer {code}: {_answer(answer, schema)}"]
    lines.append(f"\nErrors: {', '.join(code for code, _ in answers if code >= '400')}.\n")
    return "\n".join(lines)


def _errors(schema: dict[str, Any]) -> str:
    """The meaning of every status that is an error, one row each."""
    meanings = {
        code: answer["description"]
        for methods in schema["paths"].values()
        for operation in methods.values()
        for code, answer in operation["responses"].items()
        if code >= "400"
    }
    return "\n".join(f"| {code} | {text} |" for code, text in sorted(meanings.items()))


def _answer(answer: dict[str, Any], schema: dict[str, Any]) -> str:
    for kind, content in answer.get("content", {}).items():
        if "$ref" in content.get("schema", {}):
            return f"{_type(content['schema'])}.\n\n{_example(content['schema'], schema)}"
        example = (
            f"\n\n```text\n{content['example'].strip()}\n```\n" if "example" in content else ""
        )
        return f"`{kind}`.{example}"
    return str(answer["description"])


def _example(kind: dict[str, Any], schema: dict[str, Any]) -> str:
    names = [each["$ref"] for each in (kind, *kind.get("anyOf", [])) if "$ref" in each]
    models = [schema["components"]["schemas"][name.rsplit("/", 1)[-1]] for name in names]
    for model in (kind, *models):
        for example in model.get("examples", []):
            return f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```\n"
    return ""


def _model(name: str, model: dict[str, Any]) -> str:
    lines = [f"### {name}\n", f"{model.get('description', '')}\n"]
    required = model.get("required", [])
    for field, kind in model.get("properties", {}).items():
        text = _text(kind.get("description", ""), kind)
        optional = "" if field in required else ", optional"
        lines.append(f"- `{field}` ({_type(kind)}{optional}): {text}")
    return "\n".join(lines) + "\n"


def _text(text: str, kind: dict[str, Any]) -> str:
    default = kind.get("default")
    ending = "" if default is None else f" Default: `{json.dumps(default)}`."
    return f"{' '.join(text.split())}{ending}".strip()


def _type(kind: dict[str, Any]) -> str:
    """The type of a value, in words; names of objects are links."""
    if "$ref" in kind:
        name = kind["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(_type(each) for each in kind["anyOf"])
    if "enum" in kind:
        return " or ".join(f"`{json.dumps(each)}`" for each in kind["enum"])
    if kind.get("type") == "array":
        return f"list of {_type(kind['items'])}" if "items" in kind else "list"
    return str(kind.get("type", "any value"))
