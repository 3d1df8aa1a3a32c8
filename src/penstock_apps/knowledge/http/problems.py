"""What goes wrong with knowledge, as HTTP tells it."""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Callable, Coroutine
from socket import gaierror
from typing import Any, Final

import asyncpg
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from penstock import PenstockError, Retryable
from penstock.net.errors import FetchError
from penstock.service.problems import Problem, from_driver, from_error
from penstock.storage.errors import LinkRefused, ObjectMissing, StorageDown, StorageError
from penstock.storage.storage import Storage
from penstock_apps.knowledge.embed import KeyMissing, Misfit, Refused
from penstock_apps.knowledge.errors import (
    KnowledgeError,
    NotFound,
    QuotaExceeded,
    TablesMissing,
    TenantInactive,
    Unreadable,
    VectorMissing,
)
from penstock_apps.knowledge.http.calling import workshop_of
from penstock_apps.knowledge.http.parameters import expect_known, parameters_of
from penstock_apps.knowledge.upload import UploadRefused

logger = logging.getLogger("penstock.knowledge")

# What these routes answer themselves; the service answers the other errors.
OWN: Final = (KnowledgeError, StorageError, FetchError, Retryable)
# The first that fits; the rest is a conflict.
STATUSES: Final[tuple[tuple[type[PenstockError], int], ...]] = (
    (NotFound, 404),
    (ObjectMissing, 404),
    (QuotaExceeded, 403),
    (TenantInactive, 403),
    (LinkRefused, 403),
    (StorageDown, 503),
    (VectorMissing, 503),
    (TablesMissing, 503),
    (Unreadable, 422),
    (Refused, 422),
    (KeyMissing, 503),
    (Misfit, 503),
    (Retryable, 503),
)
FAULTS: Final = {
    "not_multipart": 415,
    "broken": 400,
    "too_large": 413,
    "too_many": 413,
    "cut_off": 400,
    "disk": 503,
}
# Of an address with several numbers, asyncio tells all that went wrong, and no number of it.
OF_NETWORK: Final = (None, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
OF_FILES: Final = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
)


def told(error: PenstockError) -> Problem:
    """What one of our errors is to a caller."""
    problem = from_error(error)
    if isinstance(error, Retryable) and error.after:
        problem.headers["retry-after"] = str(math.ceil(error.after))
    if isinstance(error, UploadRefused):
        problem.status = FAULTS[error.fault]
        if error.fault == "disk":
            logger.error("An upload has no room beside temporary files: %s", error.__cause__)
        if isinstance(error.__cause__, TimeoutError):
            problem.status = 408
    else:
        problem.status = next((to for kind, to in STATUSES if isinstance(error, kind)), 409)
    return problem


def told_of_system(error: OSError) -> Problem:
    """What the system refuses us: the network, or files. What is neither is a fault of ours."""
    # A socket that is not there has no file name, unlike a file.
    is_socket = error.errno == errno.ENOENT and error.filename is None
    is_lost = isinstance(error, ConnectionError | TimeoutError | gaierror)
    if is_lost or is_socket or error.errno in OF_NETWORK:
        return lost()
    if error.errno in OF_FILES:
        logger.error("The service cannot use its files: %s", error)
        detail = f"The service cannot use its files: {error.strerror}."
        return Problem(503, "files-unusable", detail)
    raise error


def told_of_storage(error: StorageDown, storage: Storage) -> Problem:
    """Where files are stored is for who runs this service, and so is what is wrong there."""
    place = f"The storage is at {storage.place}, which PENSTOCK_KNOWLEDGE_STORAGE sets."
    logger.error("%s %s", error, place)
    problem = told(error)
    problem.detail = error.public
    return problem


def lost() -> Problem:
    return Problem(503, "database-lost", "The database does not answer. Ask again in a moment.")


class Refusing(APIRoute):
    """A route that tells our errors as problems, and refuses parameters that it does not know."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        known = parameters_of(self.dependant)

        async def handle(request: Request) -> Response:
            expect_known(request, known)
            try:
                return await handler(request)
            except StorageDown as error:
                raise told_of_storage(error, workshop_of(request).storage) from error
            except OWN as error:
                raise told(error) from error
            except asyncpg.UndefinedTableError as error:
                detail = (
                    "There are no tables of knowledge: run `penstock migrate --with knowledge`."
                )
                raise Problem(503, "schema-missing", detail) from error
            except asyncpg.PostgresError as error:
                refused = from_driver(error, workshop_of(request).app.database.place)
                raise (refused or lost()) from error
            except asyncpg.InterfaceError as error:
                raise lost() from error
            except OSError as error:
                raise told_of_system(error) from error

        return handle
