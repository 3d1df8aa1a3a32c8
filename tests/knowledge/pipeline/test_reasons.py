"""What the owner of a document reads when its job ended without a word."""

from datetime import UTC, datetime

import pytest

from penstock import AttemptError, Job, NotRetryable
from penstock.net.errors import FetchRefused
from penstock.storage.errors import ObjectDamaged, ObjectMissing, StorageDown
from penstock_apps.knowledge.embed import CallRefused, EmbedderMisfit, KeyMissing
from penstock_apps.knowledge.errors import FILE_GONE
from penstock_apps.knowledge.ingest.finish import (
    FILE_DAMAGED,
    MODEL_FAILED,
    PARSER_FAILED,
    SERVICE_FAILED,
    describe_error,
    outcome_of,
)
from penstock_apps.knowledge.ingest.llamaparse import NotParsed, ParserRefuses
from penstock_apps.knowledge.settings import PREFIX, Settings

SETTINGS = Settings.of({f"{PREFIX}EXTRACT_MEMORY": "1GB", f"{PREFIX}EXTRACT_SECONDS": "600"})
NAME = "acme/00/01/secret"


def failed(kind: str, message: str) -> Job:
    return Job(
        id="7",
        task="knowledge.ingest",
        state="failed",
        reason="poison",
        args={},
        created_at=datetime.now(UTC),
        errors=(AttemptError(type=kind, message=message),),
    )


@pytest.mark.parametrize(
    ("kind", "message", "told"),
    [
        (
            "OutOfMemory",
            "The child process held 1024 MB of memory, but only 1024 MB are allowed",
            "The file needed more than 1 GB of memory to read. Split it into smaller files and "
            "send those.",
        ),
        (
            "TimeLimit",
            "The child process took longer than 600 s",
            "The file took longer than 10 minutes to read. Split it into smaller files and send "
            "those.",
        ),
        (
            "Segfault",
            "Signal 11 (SIGSEGV) ended the child process",
            "The file cannot be read, because it made the reader crash. Save it anew and "
            "send that.",
        ),
        ("FetchFailed", "The server of x.org is busy.", "The server of x.org is busy."),
        ("StorageDown", "Could not store it: bucket prod-7 refuses.", StorageDown.public),
        ("UndefinedTableError", 'relation "x" does not exist', f"{SERVICE_FAILED} (job 7)."),
        ("RuntimeError", "host db-3.internal", f"{SERVICE_FAILED} (job 7)."),
    ],
)
def test_owner_reads_what_to_do_and_nothing_of_the_inside(
    kind: str, message: str, told: str
) -> None:
    assert outcome_of(failed(kind, message), SETTINGS) == ("failed", "poison", told)


def test_limits_are_told_as_they_are_set() -> None:
    settings = Settings.of({f"{PREFIX}EXTRACT_MEMORY": "300MB", f"{PREFIX}EXTRACT_SECONDS": "90"})
    [_, _, memory] = outcome_of(failed("OutOfMemory", ""), settings)
    [_, _, time] = outcome_of(failed("TimeLimit", ""), settings)
    assert "more than 300 MB of memory" in str(memory)
    assert "longer than 90 seconds" in str(time)


def test_owner_reads_no_name_of_the_storage() -> None:
    assert describe_error(ObjectMissing(NAME), "7") == FILE_GONE
    assert describe_error(ObjectDamaged(NAME), "7") == FILE_DAMAGED


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyMissing("openai", "OPENAI_API_KEY"), f"{MODEL_FAILED} (job 7)."),
        (EmbedderMisfit("openai has refused the settings with 400."), f"{MODEL_FAILED} (job 7)."),
        (ParserRefuses("Check LLAMA_CLOUD_API_KEY."), f"{PARSER_FAILED} (job 7)."),
        (NotRetryable("host db-3.internal"), f"{SERVICE_FAILED} (job 7)."),
    ],
)
def test_owner_reads_nothing_that_only_an_operator_can_mend(error: Exception, told: str) -> None:
    assert describe_error(error, "7") == told


@pytest.mark.parametrize(
    "error",
    [
        CallRefused("openai", 400, 1),
        NotParsed("LlamaParse does not keep the file any more (404). Upload it again."),
        FetchRefused("missing", "The server of x.org has no such page (404)."),
    ],
)
def test_owner_reads_what_is_about_the_document(error: Exception) -> None:
    assert describe_error(error, "7") == str(error)
