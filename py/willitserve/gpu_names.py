"""From what people, drivers and Kubernetes labels call a card to the part that is meant, or to the question
which one."""

import difflib
import re
from collections.abc import Iterable

from willitserve.errors import AmbiguousGpuError, UnknownGpuError
from willitserve.gpu import GpuSpec

# Words that vendors put before a product name and people leave out.
_VENDOR_WORDS = frozenset(
    {"nvidia", "geforce", "tesla", "amd", "instinct", "radeon", "intel", "arc", "google", "aws", "apple"}
    | {"gpu", "graphics"}
)
_TRADEMARK = re.compile(r"\((?:r|tm)\)|[®™]", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9+]+")
_SIZE = re.compile(r"(\d+)\s+(gi?b)\b")


class GpuNames:
    """Index of ids, names, aliases and shared names. Case, hyphens, underscores and spaces do not count."""

    def __init__(self, gpus: Iterable[GpuSpec]) -> None:
        self._gpus = tuple(gpus)
        self._exact: dict[str, dict[str, GpuSpec]] = {}
        self._bare: dict[str, dict[str, GpuSpec]] = {}
        self._shared: dict[str, dict[str, GpuSpec]] = {}
        for gpu in self._gpus:
            for name in (gpu.id, gpu.name, *gpu.aliases, *gpu.shared_names):
                self._exact.setdefault(fold(name), {})[gpu.id] = gpu
                self._bare.setdefault(_bare(name), {})[gpu.id] = gpu
            for name in gpu.shared_names:
                self._shared.setdefault(fold(name), {})[gpu.id] = gpu

    def find(self, name: str) -> GpuSpec:
        """The part that `name` means.

        Tried in turn: an id or a full name; the same without the vendor's words; the words of `name` among
        those of one part (`A100 80GB SXM`).

        Raises
            AmbiguousGpuError: the name fits parts that differ in memory, bandwidth, bus or rates; `choices`
            are their ids. UnknownGpuError: it fits none; the hint names the nearest.
        """
        if not fold(name):
            raise UnknownGpuError(
                "No GPU was named.", field="gpu", hint="Name a card, for example h100-sxm5-80gb."
            )
        fits = self._exact.get(fold(name)) or self._bare.get(_bare(name)) or self._with_words(name)
        if not fits:
            raise UnknownGpuError(
                f"No GPU called {name!r} is in the catalog.", field="gpu", hint=self._nearest(name)
            )
        candidates = sorted(fits.values(), key=lambda gpu: gpu.id)
        if len({gpu.deciding_figures for gpu in candidates}) > 1:
            listed = ", ".join(gpu.name for gpu in candidates)
            raise AmbiguousGpuError(
                f"{name!r} fits {len(candidates)} parts that differ: {listed}.",
                choices=tuple(gpu.id for gpu in candidates),
                hint="Name one of them by its id.",
            )
        return candidates[0]

    def namesakes(self, gpu: GpuSpec) -> tuple[GpuSpec, ...]:
        """Other parts that carry one of `gpu`'s shared names, by id."""
        others: dict[str, GpuSpec] = {}
        for name in gpu.shared_names:
            others.update(self._shared[fold(name)])
        others.pop(gpu.id, None)
        return tuple(sorted(others.values(), key=lambda other: other.id))

    def _with_words(self, name: str) -> dict[str, GpuSpec]:
        """Parts whose names hold every word of `name`; a number also stands for that many GB."""
        wanted = [word for word in _words(name) if word not in _VENDOR_WORDS]
        numbered = any(not word.isalpha() for word in wanted)
        fits: dict[str, GpuSpec] = {}
        for gpu in self._gpus if wanted else ():
            own = {word for text in (gpu.id, gpu.name, *gpu.aliases) for word in _words(text)}
            if all(
                word in own
                or (word.isdigit() and f"{word}gb" in own)
                or (numbered and word.isalpha() and any(part.startswith(word) for part in own))
                for word in wanted
            ):
                fits[gpu.id] = gpu
        return fits

    def _nearest(self, name: str) -> str:
        spelled = {_bare(text): gpu.id for gpu in self._gpus for text in (gpu.id, gpu.name, *gpu.aliases)}
        asked = _bare(name)
        begun = sorted(text for text in spelled if text.startswith(asked))
        close = [*begun, *difflib.get_close_matches(asked, spelled, n=3)]
        ids = list(dict.fromkeys(spelled[text] for text in close))[:3]
        return (
            f"Nearest: {', '.join(ids)}." if ids else "Pick one from the list of cards."
        )


def fold(name: str) -> str:
    """Letters and digits of a name, lower case: what decides whether two spellings are the same."""
    return "".join(_words(name))


def _words(name: str) -> list[str]:
    lowered = _TRADEMARK.sub("", name).lower().replace("_", " ")
    return _WORD.findall(_SIZE.sub(r"\1\2", lowered))


def _bare(name: str) -> str:
    """The folded name without the vendor's words; a name made of nothing else stays whole."""
    words = _words(name)
    return "".join(word for word in words if word not in _VENDOR_WORDS) or "".join(words)
