"""Steps of forms: one with every kind of field, and a short way to write others."""

from __future__ import annotations

from typing import Any

EVERY_KIND: list[dict[str, Any]] = [
    {
        "title": "Scope",
        "description": "What it is *about*.",
        "schema": {
            "type": "object",
            "required": ["name", "engine", "hosts"],
            "properties": {
                "name": {"type": "string", "title": "Name", "minLength": 2, "maxLength": 40},
                "engine": {
                    "type": "string",
                    "title": "Engine",
                    "oneOf": [
                        {"const": "pg", "title": "PostgreSQL", "description": "Many writers."},
                        {"const": "ch", "title": "ClickHouse"},
                    ],
                },
                "hosts": {
                    "type": "array",
                    "title": "Hosts",
                    "minItems": 1,
                    "maxItems": 2,
                    "items": {"enum": ["nuc-01", "nas-02", "pi-03"]},
                },
                "zone": {"type": "string", "title": "Zone", "enum": ["eu", "us"]},
                "backup": {"type": "boolean", "title": "Back it up"},
            },
        },
    },
    {
        "title": "Storage",
        "schema": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {
                    "type": "integer",
                    "title": "Size in GB",
                    "minimum": 10,
                    "multipleOf": 10,
                    "default": 20,
                },
                "ratio": {"type": "number", "title": "Ratio", "maximum": 1},
                "level": {"type": "integer", "title": "Level", "enum": [1, 2, 3]},
                "notes": {"type": "string", "title": "Notes", "format": "textarea"},
            },
        },
    },
    {
        "title": "Contact",
        "schema": {
            "type": "object",
            "properties": {
                "mail": {"type": "string", "title": "Mail", "format": "email"},
                "link": {"type": "string", "title": "Link", "format": "uri"},
                "day": {"type": "string", "title": "Day", "format": "date"},
                "hour": {"type": "string", "title": "Hour", "format": "time"},
                "when": {"type": "string", "title": "When", "format": "date-time"},
                "phrase": {"type": "string", "title": "Phrase", "format": "password"},
            },
        },
    },
]


def fields_of(*properties: dict[str, Any], required: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """One step for each mapping of fields."""
    return [
        {"title": f"Step {number}", "schema": {"properties": part, "required": list(required)}}
        for number, part in enumerate(properties, 1)
    ]
