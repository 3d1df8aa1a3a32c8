"""The options for the address that a service listens on, shared by `serve` and `up`."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.errors import CannotListen, ExtraMissing, PortTaken

if TYPE_CHECKING:
    from penstock.service.app import Service
    from penstock.service.hosts import Entry
    from penstock.service.server import HttpServer


_LISTEN_STATE = "0A"
_SOCKET_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

LISTEN_PANEL = "Listening"
LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = ("0.0.0.0", "::")


def process_on_port(port: int) -> str | None:
    """Describe the process that listens on a port, as in `python (process 4711)`.

    Return None if the process is not visible, for example because it belongs to another user.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for folder in Path("/proc").glob("[0-9]*") if sockets else ():
        try:
            if any(str(file.readlink()) in sockets for file in (folder / "fd").iterdir()):
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
        except OSError:
            continue  # The process has ended, or belongs to another user.
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port."""
    for table in _SOCKET_TABLES:
        if not os.access(table, os.R_OK):
            continue
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN_STATE and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


@dataclass(frozen=True, kw_only=True)
class ListenOptions:
    """The address to listen on, and the proxies and host names in front of it."""

    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen at; 0.0.0.0 for all that the machine has.",
            rich_help_panel=LISTEN_PANEL,
        ),
    ] = LOOPBACK
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="0 for any.", rich_help_panel=LISTEN_PANEL)
    ] = 8420
    root_path: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="The path at which a proxy serves it, such as /queue, where that takes it away.",
            show_default=False,
            rich_help_panel=LISTEN_PANEL,
        ),
    ] = ""
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy whose word is taken for who asks (X-Forwarded-For) and how "
            "(X-Forwarded-Proto); may be given several times.",
            show_default=False,
            rich_help_panel=LISTEN_PANEL,
        ),
    ] = None
    hostname: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which the service is reached, such as jobs.example.com; may be given "
            "several times. Those of loopback, if none is given.",
            show_default=False,
            rich_help_panel=LISTEN_PANEL,
        ),
    ] = None
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Whose pages may ask with a key, such as https://shop.example; may be given "
            "several times.",
            show_default=False,
            rich_help_panel=LISTEN_PANEL,
        ),
    ] = None
    edge_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The header in which a --proxy that asks for passwords itself names the person.",
            show_default=False,
            rich_help_panel=LISTEN_PANEL,
        ),
    ] = None
    access_log: Annotated[
        bool,
        typer.Option("--access-log", help="Log every request.", rich_help_panel=LISTEN_PANEL),
    ] = False

    open_metrics: Annotated[
        bool,
        typer.Option(
            "--open-metrics",
            help="Let this machine read /metrics without a key. Not where a proxy runs on it: all "
            "that it passes on comes from this machine.",
            rich_help_panel=LISTEN_PANEL,
        ),
    ] = False

    def bound(self) -> socket.socket:
        """Bind a socket to the address, and return it.

        Raises `PortTaken`, which names the process that uses the port, or else `CannotListen`.
        """
        from penstock.service.server import bind_socket

        try:
            return bind_socket(self.host, self.port)
        except OSError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: OSError) -> CannotListen:
        if error.errno == errno.EADDRINUSE:
            holder = process_on_port(self.port)
            owner = f"{holder} has it" if holder else "another process has it"
            return PortTaken(
                f"Port {self.port} of {self.host} is taken: {owner}. Stop that process, or "
                "choose another port with --port (0 for any that is free).",
                port=self.port,
            )
        if error.errno == errno.EACCES:
            return CannotListen(
                f"Port {self.port} is not open to this user: ports below 1024 need special "
                "rights. Choose a higher port with --port, and let a proxy forward to it."
            )
        return CannotListen(
            f"{self.host} is not an address of this machine ({error.strerror}). Give --host "
            "127.0.0.1 for this machine alone, or --host 0.0.0.0 for all of its addresses."
        )

    def server(self, service: Service, bound: socket.socket) -> HttpServer:
        """Return the server for a service on a bound socket."""
        from penstock.service.server import HttpServer

        return HttpServer(
            service,
            bound,
            root_path=self.root_path.rstrip("/"),
            access_log=self.access_log,
        )

    def entry(self) -> Entry:
        """Return the accepted host names, origins and proxies, from options or the environment."""
        from penstock.service.hosts import Entry

        options = {
            "hosts": self.hostname,
            "origins": self.origin,
            "proxies": self.proxy,
            "edge_header": self.edge_header,
        }
        entry = Entry.of(**{name: value for name, value in options.items() if value})
        # The address that the service listens on is also a valid host name.
        return entry if self.host in ALL_ADDRESSES else entry.with_host(self.host)

    def address(self, bound: socket.socket) -> str:
        """Return the URL of the service on this machine."""
        host = LOOPBACK if self.host in ALL_ADDRESSES else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound.getsockname()[1]}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def require_service() -> None:
    """Raise `ExtraMissing` unless the packages of the HTTP service are installed."""
    try:
        import_module("penstock.service.server")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("penstock"):
            raise
        raise ExtraMissing("service", error.name) from error
