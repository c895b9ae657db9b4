"""Applies changes on SIGHUP while a gateway runs: the certificate, and options that need no restart."""

import asyncio
import contextlib
import logging
import signal
import ssl
from collections.abc import Callable, Collection

import msgspec

from ..errors import Error
from ..transports.remote.server.certificates import reload_certificate
from .gateway import Gateway
from .options import ServeOptions
from .web.application import Web

log = logging.getLogger("dragoman")


def on_hangup(reload: Callable[[], None]) -> None:
    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # not in the main thread: no signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


class OptionsInForce:
    """The current options of a gateway; those that need no restart can be replaced."""

    def __init__(
        self, options: ServeOptions, gateway: Gateway, web: Web, tls: ssl.SSLContext | None, own: Collection[str]
    ) -> None:
        self.options = options
        self._gateway, self._web, self._tls, self._own = gateway, web, tls, own

    def replace(self, options: ServeOptions) -> None:
        """Apply new options, all or none; raises Error if the certificate cannot be used."""
        self.read_certificate(options)
        gateway, guard = self._gateway, self._web.guard
        gateway.budget.limits = options.limits
        gateway.detached = options.detached
        gateway.expiry.retention = options.retention
        gateway.checks = msgspec.structs.replace(gateway.checks, commands=frozenset(options.mcp_commands))
        guard.hosts = {*self._own, *options.names}
        guard.origins.clear()  # the endpoint shares this set
        guard.origins.update(options.origins)
        self.options = options

    def read_certificate(self, options: ServeOptions) -> None:
        """Use the current certificate for new connections; open ones stay."""
        if self._tls is None or options.tls is None:
            log.info("there is no certificate to read again; tokens and keys are read when they change")
            return
        try:
            reload_certificate(self._tls, *options.tls)
        except OSError as exc:
            raise Error(f"the new certificate cannot be used: {exc}") from None
        log.info("the certificate was read again")


def reload(force: OptionsInForce, reread: Callable[[], ServeOptions] | None) -> None:
    """Handle SIGHUP; if the configuration cannot be read, nothing changes."""
    try:
        if reread:
            force.replace(reread())
        else:
            force.read_certificate(force.options)
    except (Error, OSError) as exc:
        log.error("nothing was reloaded: %s", exc)
