"""The request log of the stand-in: what a browser really sent, for tests to assert on."""

import threading
from dataclasses import dataclass, field


@dataclass
class Exchange:
    """One request as it arrived, and what was answered."""

    method: str
    host: str
    path: str
    """As sent, percent-encoding kept."""
    query: str
    headers: dict[str, str]
    """Lower-case names."""
    status: int = 0
    sent_bytes: int = 0
    finished: bool = False

    @property
    def range(self) -> str | None:
        return self.headers.get("range")

    @property
    def origin(self) -> str | None:
        return self.headers.get("origin")

    @property
    def referer(self) -> str | None:
        return self.headers.get("referer")

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")

    @property
    def accept_encoding(self) -> str | None:
        return self.headers.get("accept-encoding")

    @property
    def asked_headers(self) -> str | None:
        """Access-Control-Request-Headers of a preflight."""
        return self.headers.get("access-control-request-headers")

    @property
    def line(self) -> str:
        return f"{self.method} {self.host}{self.path} {self.range or '-'} -> {self.status}"


@dataclass
class RequestLog:
    """Every exchange since the last `clear`, in order of arrival."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    in_flight: int = 0
    max_in_flight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def clear(self) -> None:
        with self._lock:
            self.exchanges = []
            self.max_in_flight = self.in_flight

    def begin(self, exchange: Exchange) -> None:
        with self._lock:
            self.exchanges.append(exchange)
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def end(self, exchange: Exchange) -> None:
        with self._lock:
            exchange.finished = True
            self.in_flight -= 1

    def of(
        self, *, method: str | None = None, host: str | None = None, containing: str = ""
    ) -> list[Exchange]:
        """The exchanges with this method, this host and this text in the path."""
        with self._lock:
            return [
                one
                for one in self.exchanges
                if method in (None, one.method) and host in (None, one.host) and containing in one.path
            ]

    @property
    def preflights(self) -> list[Exchange]:
        return self.of(method="OPTIONS")

    @property
    def lines(self) -> list[str]:
        with self._lock:
            return [exchange.line for exchange in self.exchanges]
