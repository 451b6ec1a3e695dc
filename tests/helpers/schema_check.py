"""The part of JSON Schema that docs/registry-schema.yaml uses."""

import re

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
}


def faults(value, schema, path=""):
    """Every place where a value is not what the schema says."""
    if not isinstance(value, TYPES[schema["type"]]) or isinstance(value, bool):
        yield f"{path} is no {schema['type']}"
        return
    if value not in schema.get("enum", [value]):
        yield f"{path} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value, re.DOTALL):
        yield f"{path} does not match {schema['pattern']}"
    if isinstance(value, dict):
        known = schema["properties"]
        yield from (f"{path} lacks {key}" for key in schema.get("required", []) if key not in value)
        yield from (f"{path} has {key}" for key in value if key not in known)
        for key, one in value.items():
            if key in known:
                yield from faults(one, known[key], f"{path}/{key}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{path} is too short"
        for one in value:
            yield from faults(one, schema["items"], path)
