"""Notebooks: their text as it is, their code as blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock_apps.knowledge.extract.detect import decode
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.markdown import heading
from penstock_apps.knowledge.extract.plain import block
from penstock_apps.knowledge.text import Extracted, Section


def read(path: Path, name: str, limits: Limits) -> Extracted:
    notebook = json.loads(decode(path.read_bytes()))
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "")
    text = "\n\n".join(shown(cell, language) for cell in notebook["cells"])
    return Extracted((Section(text),), kind="notebook", title=heading(text))


def shown(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return block(text, language) if cell.get("cell_type") == "code" and text.strip() else text
