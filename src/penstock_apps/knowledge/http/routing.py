"""Find the library that a request is about, and turn errors into HTTP problems."""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Callable, Coroutine, Set
from socket import gaierror
from typing import TYPE_CHECKING, Annotated, Any, Final

import asyncpg
from fastapi import Depends, Query, Request
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection
from starlette.responses import Response

from penstock import PenstockError, Retryable
from penstock.net.errors import FetchError
from penstock.service.auth import Caller, requester
from penstock.service.dependencies import Enqueuer, Operator, Reader, runtime_of
from penstock.service.problems import Problem, from_driver, from_error
from penstock.storage.errors import LinkRefused, ObjectMissing, StorageDown, StorageError
from penstock.storage.storage import Storage
from penstock_apps.knowledge.embed import CallRefused, EmbedderMisfit, KeyMissing
from penstock_apps.knowledge.errors import (
    KnowledgeError,
    NotFound,
    QuotaExceeded,
    TablesMissing,
    TenantInactive,
    Unreadable,
    VectorMissing,
)
from penstock_apps.knowledge.http.bodies import PLAIN
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.multipart_form import UploadRefused
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.settings import DEFAULT_TENANT

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant


Tenant = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description=(
            "The tenant whose knowledge this is about. "
            "Leave it out if the key is bound to a tenant."
        ),
    ),
]

Person = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description=(
            "The person on whose behalf the request is made. The key needs the scope `on_behalf`."
        ),
    ),
]


def knowledge_runtime(connection: HTTPConnection) -> KnowledgeRuntime:
    """Return the runtime of knowledge, which the service has opened."""
    runtime: KnowledgeRuntime = runtime_of(connection).applications["knowledge"]
    return runtime


def library_of(
    connection: HTTPConnection, caller: Caller, tenant: str | None, person: str | None = None
) -> Library:
    """Return the library of the caller's tenant. A caller that is bound to no tenant chooses one.

    Raise a Problem if the caller is bound to another tenant. Jobs are enqueued on behalf of the
    caller, or of the person that a trusted key names.
    """
    runtime = knowledge_runtime(connection)
    if caller.tenant is None:
        return Library(runtime, tenant or DEFAULT_TENANT, requested_by=requester(caller, person))
    if tenant not in (None, caller.tenant):
        message = f"{caller.name} is bound to another tenant than {tenant!r}."
        raise Problem(403, "not-allowed", message)
    requested_by = requester(caller, person)
    return Library(runtime, caller.tenant, confined=True, requested_by=requested_by)


async def _library_to_read(request: Request, caller: Reader, tenant: Tenant = None) -> Library:
    return library_of(request, caller, tenant)


async def _library_to_add(
    request: Request, caller: Enqueuer, tenant: Tenant = None, requested_by: Person = None
) -> Library:
    return library_of(request, caller, tenant, requested_by)


async def _library_to_change(
    request: Request, caller: Operator, tenant: Tenant = None, requested_by: Person = None
) -> Library:
    return library_of(request, caller, tenant, requested_by)


Read = Annotated[Library, Depends(_library_to_read)]
Add = Annotated[Library, Depends(_library_to_add)]
Change = Annotated[Library, Depends(_library_to_change)]


def list_parameters(route: Dependant) -> frozenset[str]:
    """Return the query parameters of a route and of its dependencies."""
    own = frozenset(each.alias for each in route.query_params)
    return own.union(*map(list_parameters, route.dependencies))


def refuse_unknown_parameters(request: Request, known: Set[str]) -> None:
    """Raise a Problem that lists the existing parameters if the query has unknown ones."""
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        existing = (
            f"the parameters are: {', '.join(sorted(known))}." if known else "this route has none."
        )
        fields = [(f"query.{name}", f"It is not a known parameter; {existing}") for name in unknown]
        message = f"There is no parameter {', '.join(map(repr, unknown))}; {existing}"
        raise Problem(422, "does-not-fit", message, fields=fields)


logger = logging.getLogger("penstock.knowledge")

# The errors that these routes answer themselves; the service answers all others.
HANDLED_ERRORS: Final = (KnowledgeError, StorageError, FetchError, Retryable)
# The first class that fits decides; all others are conflicts (409).
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
    (CallRefused, 422),
    (KeyMissing, 503),
    (EmbedderMisfit, 503),
    (Retryable, 503),
)
UPLOAD_STATUSES: Final = {
    "not_multipart": 415,
    "broken": 400,
    "too_large": 413,
    "too_many": 413,
    "cut_off": 400,
    "disk": 503,
}
# If a host has several addresses, the error of asyncio lists all failures and has no errno.
NETWORK_ERRNOS: Final = (None, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
FILE_ERRNOS: Final = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
)


def problem_from(error: PenstockError) -> Problem:
    """Return the problem that a caller gets for an error."""
    problem = from_error(error)
    if isinstance(error, Retryable) and error.after:
        problem.headers["retry-after"] = str(math.ceil(error.after))
    if isinstance(error, UploadRefused):
        problem.status = UPLOAD_STATUSES[error.fault]
        if error.fault == "disk":
            logger.error(
                "There is no room for the temporary files of an upload: %s", error.__cause__
            )
        if isinstance(error.__cause__, TimeoutError):
            problem.status = 408
    else:
        problem.status = next((to for kind, to in STATUSES if isinstance(error, kind)), 409)
    return problem


def problem_from_os_error(error: OSError) -> Problem:
    """Return the problem for a network or file error. Raise any other error again."""
    # A missing Unix socket has no file name in its error, unlike a missing file.
    is_socket = error.errno == errno.ENOENT and error.filename is None
    is_lost = isinstance(error, ConnectionError | TimeoutError | gaierror)
    if is_lost or is_socket or error.errno in NETWORK_ERRNOS:
        return database_lost()
    if error.errno in FILE_ERRNOS:
        logger.error("The service cannot read or write its files: %s", error)
        detail = f"The service cannot read or write its files: {error.strerror}."
        return Problem(503, "files-unusable", detail)
    raise error


def problem_from_storage(error: StorageDown, storage: Storage) -> Problem:
    """Log the details of a storage error for operators, and return a problem without them."""
    place = f"The storage is at {storage.place}, which PENSTOCK_KNOWLEDGE_STORAGE sets."
    logger.error("%s %s", error, place)
    problem = problem_from(error)
    problem.detail = error.public
    return problem


def database_lost() -> Problem:
    return Problem(503, "database-lost", "The database does not answer. Ask again in a moment.")


class KnowledgeRoute(APIRoute):
    """A route that answers errors of knowledge as problems, and refuses unknown parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        known = list_parameters(self.dependant)

        async def handle(request: Request) -> Response:
            refuse_unknown_parameters(request, known)
            try:
                return await handler(request)
            except StorageDown as error:
                raise problem_from_storage(error, knowledge_runtime(request).storage) from error
            except HANDLED_ERRORS as error:
                raise problem_from(error) from error
            except asyncpg.UndefinedTableError as error:
                detail = (
                    "There are no tables of knowledge: run `penstock migrate --with knowledge`."
                )
                raise Problem(503, "schema-missing", detail) from error
            except asyncpg.PostgresError as error:
                refused = from_driver(error, knowledge_runtime(request).app.database.place)
                raise (refused or database_lost()) from error
            except asyncpg.InterfaceError as error:
                raise database_lost() from error
            except OSError as error:
                raise problem_from_os_error(error) from error

        return handle
