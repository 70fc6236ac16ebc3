"""A radix tree of token sequences: what several of them begin with is stored once.

A split that would share less than `MIN_SHARED` tokens is not made, since each costs an attention call a layer;
those few tokens are then stored twice. Sequences go in in the caller's order, and the order decides the tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from burnish.models.attention import Block, Span

MIN_SHARED = 16


@dataclass(slots=True, eq=False)
class Node:
    """Tokens that go on from the parent's. A split keeps the object for the rear part."""

    token_ids: Sequence[int]
    parent: "Node | None"
    children: "list[Node]" = field(default_factory=list["Node"])
    start: int = 0
    """Where it lies in the tree's flat order; known after `PrefixTree.flatten`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A tree in depth-first order."""

    token_ids: list[int]
    positions: list[int]
    blocks: list[Block]


class PrefixTree:
    """Sequences that are inserted one by one; `num_tokens` is how many tokens are stored."""

    def __init__(self) -> None:
        self._root = Node((), None)
        self.num_tokens = 0

    def insert(self, token_ids: Sequence[int]) -> Node:
        """Store a sequence; returns the node in which it ends."""
        node, num_used, rest = self._descend(token_ids)
        if not rest:
            return node
        if num_used < len(node.token_ids):
            node = _split(node, num_used)
        node.children.append(Node(rest, node))
        self.num_tokens += len(rest)
        return node.children[-1]

    def num_missing(self, token_ids: Sequence[int]) -> int:
        """How many tokens `insert` would add."""
        return len(self._descend(token_ids)[2])

    def _descend(self, token_ids: Sequence[int]) -> tuple[Node, int, Sequence[int]]:
        """The last node that a sequence shares, how much of it, and what is left of the sequence."""
        node, rest = self._root, token_ids
        while rest:
            child, num_shared = _most_alike(node, rest)
            if child is None or num_shared < min(len(child.token_ids), len(rest), MIN_SHARED):
                return node, len(node.token_ids), rest
            node, rest = child, rest[num_shared:]
            if num_shared < len(child.token_ids):
                return node, num_shared, rest
        return node, len(node.token_ids), rest

    def flatten(self) -> Flat:
        """Lay the tree out, parents before their children."""
        flat = Flat(token_ids=[], positions=[], blocks=[])
        flat.blocks.extend(_lay_out(child, 0, flat) for child in self._root.children)
        return flat


def places(node: Node) -> list[int]:
    """Where the tokens of a sequence that ends in this node lie, in flat order."""
    path: list[range] = []
    while node.parent is not None:
        path.append(range(node.start, node.start + len(node.token_ids)))
        node = node.parent
    return [place for part in reversed(path) for place in part]


def _lay_out(node: Node, position: int, flat: Flat) -> Block:
    node.start = len(flat.token_ids)
    flat.token_ids.extend(node.token_ids)
    flat.positions.extend(range(position, position + len(node.token_ids)))
    position += len(node.token_ids)
    children = tuple(_lay_out(child, position, flat) for child in node.children)
    return Block(Span(node.start, len(node.token_ids)), children)


def _most_alike(parent: Node, token_ids: Sequence[int]) -> tuple[Node | None, int]:
    shares = [(_num_shared(child.token_ids, token_ids), child) for child in parent.children]
    num_shared, child = max(shares, key=lambda share: share[0], default=(0, None))
    return (child, num_shared) if num_shared else (None, 0)


def _num_shared(one: Sequence[int], two: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(one, two, strict=False)):
        if a != b:
            return index
    return min(len(one), len(two))


def _split(node: Node, length: int) -> Node:
    """Put a new node of the first `length` tokens above a node; returns it."""
    assert node.parent is not None
    head = Node(node.token_ids[:length], node.parent, [node])
    siblings = node.parent.children
    siblings[siblings.index(node)] = head
    node.token_ids, node.parent = node.token_ids[length:], head
    return head
