"""Whether an answer is one that the document names."""

import re
from typing import Any

import httpx


class Documented:
    """A hook for a client: each answer has to be in the document of the service."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._paths = {
            re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path)) + "$"): told
            for path, told in document["paths"].items()
        }

    async def __call__(self, answer: httpx.Response) -> None:
        """A path that no pattern fits is none of the document's."""
        path, verb = answer.request.url.path, answer.request.method.lower()
        for pattern, told in self._paths.items():
            if pattern.match(path) and verb in told:
                status, kind = str(answer.status_code), answer.headers.get("content-type", "")
                assert status in told[verb]["responses"], (verb, path, status)
                kinds = told[verb]["responses"][status].get("content", {"": {}})
                assert kind.partition(";")[0] in kinds, (verb, path, status, kind)
                return
        raise AssertionError(f"{verb} {path} is not in the document.")
