"""The documents of the benchmarks: orders of a shop, about 300 bytes of BSON each, or 3,600.

Everything is a function of (seed, index): order 7 is the same document in every run, in every process,
whichever process made it. So nothing has to be read back to know which ids exist, loading can use any
number of processes, and we and a peer are given the very same work.

Invariant: `order_id(seed, i)` rises with `i`, so new orders are appended in `_id` order, as in a real shop.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import accumulate, product
from random import Random
from typing import Any, Literal

from bson import Decimal128, Int64, ObjectId

IdKind = Literal["objectid", "int"]
Order = dict[str, Any]
Maker = Callable[[int, int, int, IdKind], Iterator[Order]]
"""Makes orders: by seed, the first number, the one behind the last, and the kind of `_id`."""

BLOCK = 10_000  # orders made from one random generator
FIRST_ORDER_AT = datetime(2025, 1, 1, tzinfo=UTC)
ORDERS_PER_SECOND = 100
STATUSES = ("placed", "paid", "packed", "shipped", "delivered", "returned")
_PLACES = (
    *(("Amsterdam", "NL"), ("Bordeaux", "FR"), ("Cork", "IE"), ("Dresden", "DE"), ("Ghent", "BE")),
    *(("Linz", "AT"), ("Porto", "PT"), ("Turin", "IT"), ("Uppsala", "SE"), ("Vilnius", "LT")),
)

_LARGE_LINES, _LARGE_TEXT_BYTES = (12, 28), 2_080
_SYLLABLES = ("an", "ber", "co", "den", "el", "for", "ga", "his", "lo", "mi", "ter", "un")
_WORDS = tuple("".join(parts) for count in (1, 2, 3) for parts in product(_SYLLABLES, repeat=count))
# As in a language, short words are the frequent ones, and there are many that hardly ever come.
_FREQUENCIES = tuple(1 / (rank + 2) for rank in range(1, len(_WORDS) + 1))
_CUMULATED = tuple(accumulate(_FREQUENCIES))
_WORD_BYTES = (
    sum(often * (len(word) + 1) for often, word in zip(_FREQUENCIES, _WORDS, strict=True)) / _CUMULATED[-1]
)

# An order as a table: what every table of the benchmarks has for columns.
ORDER_DDL = """
    _id STRING, number STRING, status STRING, placed_at TIMESTAMP, revision INT,
    customer STRUCT<number: INT, address: STRUCT<city: STRING, country: STRING>>,
    items ARRAY<STRUCT<sku: STRING, quantity: INT, price: DECIMAL(18, 2)>>,
    total DECIMAL(18, 2), gift BOOLEAN
"""


def order_id(seed: int, index: int, ids: IdKind = "objectid") -> ObjectId | Int64:
    """The `_id` of order `index`: rising with it; for "int" it is the index itself."""
    if ids == "int":
        return Int64(index)
    second = int(FIRST_ORDER_AT.timestamp()) + index // ORDERS_PER_SECOND
    return ObjectId(struct.pack(">III", second, seed & 0xFFFFFFFF, index))


def orders(seed: int, start: int, stop: int, ids: IdKind = "objectid") -> Iterator[Order]:
    """Orders [start, stop). A block is always made from its first order on, so cut at multiples of BLOCK
    for speed."""
    index = start - start % BLOCK
    while index < stop:
        random = Random(f"{seed}:{index // BLOCK}")
        customers, items = _customers(random), _items(random)
        for number in range(index, index + BLOCK):
            order = _order(seed, number, ids, random, customers, items)
            if start <= number < stop:
                yield order
        index += BLOCK


def large_orders(seed: int, start: int, stop: int, ids: IdKind = "objectid") -> Iterator[Order]:
    """The same orders with some twenty lines each and a text, which compresses about as one of a language does: some
    3,600 bytes of BSON."""
    items = _many_items(seed)
    for number, order in enumerate(orders(seed, start, stop, ids), start):
        random = Random(f"{seed}:large:{number}")
        lines = random.choices(items, k=random.randint(*_LARGE_LINES))
        words = round(random.uniform(0.5, 1.5) * _LARGE_TEXT_BYTES / _WORD_BYTES)
        yield {
            **order,
            "items": [line["item"] for line in lines],
            "total": _total(lines),
            "text": " ".join(random.choices(_WORDS, cum_weights=_CUMULATED, k=words)),
        }


def few_orders(seed: int, start: int, count: int, ids: IdKind = "objectid") -> list[Order]:
    """`count` orders from number `start` on, in time that grows with `count` alone. Their contents depend
    on `start`."""
    random = Random(f"{seed}:few:{start}")
    customers, items = _customers(random, 16), _items(random, 16)
    return [_order(seed, number, ids, random, customers, items) for number in range(start, start + count)]


def _order(
    seed: int, number: int, ids: IdKind, random: Random, customers: Sequence[Order], items: Sequence[Order]
) -> Order:
    bits = random.getrandbits(64)
    lines = [items[(bits >> (8 * line)) % len(items)] for line in range(1 + (bits >> 60) % 2)]
    return {
        "_id": order_id(seed, number, ids),
        "number": f"SO-{number:09d}",
        "status": STATUSES[(bits >> 24) % len(STATUSES)],
        "placed_at": FIRST_ORDER_AT
        + timedelta(seconds=number // ORDERS_PER_SECOND, milliseconds=(bits >> 32) % 1000),
        "revision": 1,
        "customer": customers[(bits >> 44) % len(customers)],
        "items": [line["item"] for line in lines],
        "total": _total(lines),
        "gift": (bits >> 56) % 8 == 0,
    }


def _total(lines: Sequence[Order]) -> Decimal128:
    cents = sum(line["cents"] * line["item"]["quantity"] for line in lines)
    return Decimal128(Decimal(cents).scaleb(-2))


@cache
def _many_items(seed: int) -> list[Order]:
    return _items(Random(f"{seed}:items"), 4_096)


def _customers(random: Random, count: int = 256) -> list[Order]:
    customers = []
    for _ in range(count):
        city, country = random.choice(_PLACES)
        customers.append(
            {"number": random.randrange(1_000_000), "address": {"city": city, "country": country}}
        )
    return customers


def _items(random: Random, count: int = 256) -> list[Order]:
    items = []
    for _ in range(count):
        cents = random.randrange(99, 49_999)
        price = Decimal128(Decimal(cents).scaleb(-2))
        item = {
            "sku": f"SKU-{random.randrange(100_000):05d}",
            "quantity": random.randint(1, 4),
            "price": price,
        }
        items.append({"cents": cents, "item": item})
    return items
