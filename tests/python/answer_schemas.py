"""Checks what the command prints as JSON against the published schemas.

Readers must allow for new keys, so the schemas do. Here every key has to be in them: one that is not was forgotten.
"""

import functools
import json
import pathlib

import jsonschema

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs/schema"


def published():
    return {path.stem for path in FOLDER.glob("*.json")}


@functools.cache
def validator(name):
    schema = json.loads((FOLDER / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(closed(schema, schema.get("$defs", {})))


def closed(schema, definitions):
    """The schema of a value, without further keys in it."""
    schema = inlined(schema, definitions)
    if has_properties(schema):
        schema["unevaluatedProperties"] = False
    return schema


def inlined(schema, definitions):
    """A copy with definitions in place of their names: what is closed as a whole must not be closed in its parts."""
    if isinstance(schema, bool):
        return schema
    copy = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "$schema")}
    for key in ("oneOf", "anyOf", "allOf"):
        if key in copy:
            copy[key] = [inlined(part, definitions) for part in copy[key]]
    for key in ("items", "additionalProperties"):
        if key in copy:
            copy[key] = closed(copy[key], definitions)
    if "properties" in copy:
        copy["properties"] = {name: closed(value, definitions) for name, value in copy["properties"].items()}
    if "$ref" in schema:
        target = inlined(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
        copy["allOf"] = [*copy.get("allOf", []), target]
    return copy


def has_properties(schema):
    if isinstance(schema, bool):
        return False
    parts = [part for key in ("oneOf", "anyOf", "allOf") for part in schema.get(key, [])]
    return "properties" in schema or any(has_properties(part) for part in parts)


def check(name, answer):
    """Fails where an answer is not as published."""
    validator(name).validate(answer)


def check_printed(text):
    """Checks what was printed, as far as it is an answer: whole, or line by line. Gives the names of the answers."""
    for pieces in [text], text.splitlines():
        try:
            answers = [json.loads(piece) for piece in pieces]
        except ValueError:
            continue
        return {checked for answer in answers if (checked := check_answer(answer))}
    return set()


def check_answer(answer):
    if not isinstance(answer, dict):
        return None
    schema = str(answer.get("schema", ""))
    name = "monitor" if "event" in answer else schema.removeprefix("nilo.").removesuffix("/1")
    if name not in published():
        return None
    check(name, answer)
    return name
