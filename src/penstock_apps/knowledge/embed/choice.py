"""Make the embedder that settings name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock_apps.knowledge.embed.embedder import Embedder, Embedding
from penstock_apps.knowledge.extras import NotInstalled

CALL_TIMEOUT_S: Final = 60.0


def embedder_of(
    settings: Embedding, environment: Mapping[str, str], *, timeout: float = CALL_TIMEOUT_S
) -> Embedder:
    """Return the embedder that the settings name. Its key is read from the environment.

    The packages of an embedder are imported only by this call. Raises `NotInstalled` if a package
    is missing, and `KeyMissing` if the key is missing. A call over HTTP may take `timeout` seconds.
    """
    try:
        match settings.provider:
            case "wordllama":
                from penstock_apps.knowledge.embed.wordllama import WordLlama

                return WordLlama(settings)
            case "minilm":
                from penstock_apps.knowledge.embed.minilm import MiniLM

                return MiniLM(settings)
            case "openai":
                from penstock_apps.knowledge.embed.openai import OpenAI

                return OpenAI(settings, environment, timeout)
            case "cohere":
                from penstock_apps.knowledge.embed.cohere import Cohere

                return Cohere(settings, environment, timeout)
            case "voyage":
                from penstock_apps.knowledge.embed.voyage import Voyage

                return Voyage(settings, environment, timeout)
    except ImportError as error:
        raise NotInstalled(error.name or "needed", "knowledge") from error
