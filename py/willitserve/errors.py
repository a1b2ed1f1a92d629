"""Every error that a caller may show to a user.

WillItServeError                 code "willitserve"
├── InputError                   "input"          a value of the request
│   ├── UnknownGpuError          "gpu-unknown"    no catalog entry has that id or name
│   └── AmbiguousGpuError        "gpu-ambiguous"  the name fits several parts; `choices` are their ids
├── HeaderError                  "header"         bytes that are not a valid safetensors header
├── ConfigError                  "config"         config.json is missing a key, or contradicts itself
├── RepositoryError              "repository"     no loadable set of weight files
└── CatalogError                 "catalog"        a catalog file breaks its own rules
"""


class WillItServeError(Exception):
    """Base of every error that a caller may show: `message` says what was found and where, `hint` what to
    do."""

    code = "willitserve"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def said(self) -> str:
        """The message as a sentence: capital first, full stop last."""
        first = self.message.split(" ", 1)[0]
        # A file or key name at the head of a message is quoted as it is.
        said = self.message[:1].upper() + self.message[1:] if first.isalpha() else self.message
        return said if said.endswith((".", "?", "!")) else said + "."

    @property
    def sentence(self) -> str:
        """Message and hint as they stand in a text."""
        return f"{self.said} {self.hint}".strip()


class InputError(WillItServeError):
    """A value of the request cannot be used; `field` is its URL key."""

    code = "input"

    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class UnknownGpuError(InputError):
    """No catalog entry has that id, name or alias."""

    code = "gpu-unknown"


class AmbiguousGpuError(InputError):
    """The name fits several parts that differ in what decides the answer; none is picked."""

    code = "gpu-ambiguous"

    def __init__(self, message: str, *, choices: tuple[str, ...], hint: str = "") -> None:
        super().__init__(message, field="gpu", hint=hint)
        self.choices = choices


class HeaderError(WillItServeError):
    """The bytes are not a valid safetensors header."""

    code = "header"


class ConfigError(WillItServeError):
    """config.json lacks what is needed, or contradicts itself."""

    code = "config"


class RepositoryError(WillItServeError):
    """The files at hand hold no set of weights that an engine would load."""

    code = "repository"


class CatalogError(WillItServeError):
    """A catalog file breaks its own rules; the message names file, line and entry."""

    code = "catalog"
