"""Where a service listens: the same options for `serve` and `up`."""

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
    from penstock.service.server import Server


_LISTENS = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def holder_of(port: int) -> str | None:
    """`python (process 4711)`; None where it cannot be seen, as for another user's process."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in Path("/proc").glob("[0-9]*") if sockets else ():
        try:
            if any(str(file.readlink()) in sockets for file in (folder / "fd").iterdir()):
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
        except OSError:
            continue  # It has ended, or is somebody else's.
    return None


def _inodes(port: int) -> Iterator[str]:
    """The sockets that listen on a port, as the kernel numbers them."""
    for table in _TABLES:
        if not os.access(table, os.R_OK):
            continue
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


PANEL = "Listening"
LOCAL = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, kw_only=True)
class Listening:
    """An address, and what stands before it."""

    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen at; 0.0.0.0 for all that the machine has.",
            rich_help_panel=PANEL,
        ),
    ] = LOCAL
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="0 for any.", rich_help_panel=PANEL)
    ] = 8420
    root_path: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="The path at which a proxy serves it, such as /queue, where that takes it away.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = ""
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy whose word is taken for who asks (X-Forwarded-For) and how "
            "(X-Forwarded-Proto); may be given several times.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None
    hostname: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which the service is reached, such as jobs.example.com; may be given "
            "several times. Those of loopback, if none is given.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Whose pages may ask with a key, such as https://shop.example; may be given "
            "several times.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None
    edge_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The header in which a --proxy that asks for passwords itself names the person.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None
    access_log: Annotated[
        bool,
        typer.Option("--access-log", help="Log every request.", rich_help_panel=PANEL),
    ] = False

    open_metrics: Annotated[
        bool,
        typer.Option(
            "--open-metrics",
            help="Let this machine read /metrics without a key. Not where a proxy runs on it: all "
            "that it passes on comes from this machine.",
            rich_help_panel=PANEL,
        ),
    ] = False

    def bound(self) -> socket.socket:
        """The socket, or an error that says who has it."""
        from penstock.service.server import bind_socket

        try:
            return bind_socket(self.host, self.port)
        except OSError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: OSError) -> CannotListen:
        if error.errno == errno.EADDRINUSE:
            holder = holder_of(self.port)
            whose = f"{holder} has it" if holder else "another process has it"
            return PortTaken(
                f"Port {self.port} of {self.host} is taken: {whose}. Stop that, or give another "
                "with --port (0 for any that is free).",
                port=self.port,
            )
        if error.errno == errno.EACCES:
            return CannotListen(
                f"Port {self.port} is not for this user: those below 1024 need rights of their "
                "own. Give another with --port, and let a proxy lead there."
            )
        return CannotListen(
            f"{self.host} is no address of this machine ({error.strerror}). Give --host 127.0.0.1 "
            "for this machine alone, or --host 0.0.0.0 for all of its addresses."
        )

    def server(self, service: Service, bound: socket.socket) -> Server:
        """The server for a service, on a socket of `bound`."""
        from penstock.service.server import Server

        return Server(
            service,
            bound,
            root_path=self.root_path.rstrip("/"),
            access_log=self.access_log,
        )

    def entry(self) -> Entry:
        """Who may knock: as the options say, or else the environment."""
        from penstock.service.hosts import Entry

        given = {
            "hosts": self.hostname,
            "origins": self.origin,
            "proxies": self.proxy,
            "edge_header": self.edge_header,
        }
        entry = Entry.of(**{name: value for name, value in given.items() if value})
        # Who was told to listen at an address may be asked by it.
        return entry if self.host in EVERYWHERE else entry.with_host(self.host)

    def address(self, bound: socket.socket) -> str:
        """Where to reach it from this machine."""
        host = LOCAL if self.host in EVERYWHERE else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound.getsockname()[1]}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def expect_service() -> None:
    """Raise if what the service is made of is not installed."""
    try:
        import_module("penstock.service.server")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("penstock"):
            raise
        raise ExtraMissing("service", error.name) from error
