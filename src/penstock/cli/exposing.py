"""The metrics of a worker, at a port of its own: a worker serves nothing else."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from penstock.app.app import Penstock
from penstock.cli.errors import CannotListen, ExtraMissing, PortTaken
from penstock.cli.ports import holder_of

LOCAL = "127.0.0.1"


@contextmanager
def exposed(app: Penstock, at: str | None) -> Iterator[None]:
    """Serve `/metrics` of this process meanwhile, if anybody asked for that."""
    if at is None:
        yield
        return
    host, port = parsed(at)
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from penstock.service.metrics import ProcessMetrics
    except ModuleNotFoundError as error:
        raise ExtraMissing("service", str(error.name)) from error
    registry = CollectorRegistry()
    counting = ProcessMetrics(app.events, lambda: app.declared_queues, registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise _refusal(host, port, error) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        counting.close()


def parsed(at: str) -> tuple[str, int]:
    """`9100` on this machine alone, `0.0.0.0:9100` on all its addresses."""
    host, _, port = at.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(f"--metrics {at} has no port: write 9100, or 0.0.0.0:9100")
    return host or LOCAL, int(port)


def _refusal(host: str, port: int, error: OSError) -> CannotListen:
    if error.errno != errno.EADDRINUSE:
        return CannotListen(f"{host}:{port} cannot be listened at: {error.strerror}.")
    holder = holder_of(port) or "another process"
    return PortTaken(
        f"Port {port} of {host} is taken: {holder} has it. Give another with --metrics.", port=port
    )
