"""Results kept beside a large object, by its identity: a checkpoint costs more to hash than to add up."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class IdentityMemo(Generic[Owner, Value]):
    """The last results by (owner, key); the owner is held, so that its identity stays its own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, Hashable], tuple[Owner, Value]] = OrderedDict()

    def get(self, owner: Owner, key: Hashable, make: Callable[[], Value]) -> Value:
        """The result for this owner and key, made when it is not there."""
        place = (id(owner), key)
        known = self._kept.get(place)
        if known is not None:
            self._kept.move_to_end(place)
            return known[1]
        value = make()
        self._kept[place] = (owner, value)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return value
