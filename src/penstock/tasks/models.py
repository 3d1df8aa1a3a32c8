"""Pydantic models in arguments and results. Pydantic is optional: it is never imported here.

Who has a model has imported pydantic, so it is found in sys.modules or not at all.
"""

import sys
from typing import Any

import msgspec


def is_model(kind: type) -> bool:
    """Whether this class is a pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def dump_model(model: Any) -> Any:
    """Return the model as values of JSON."""
    return model.model_dump(mode="json", by_alias=True, round_trip=True)


def load_model(kind: Any, value: Any) -> Any:
    """Return the model that was stored as these values of JSON."""
    try:
        # From JSON, because strict models then take text for dates and the like.
        return kind.model_validate_json(msgspec.json.encode(value))
    except sys.modules["pydantic"].ValidationError as error:
        raise ValueError(_problems(error)) from None


def _problems(error: Any) -> str:
    """Return what is wrong without the values, which may be secret."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems)
