"""Weights on their way from a learner to those who sample: what changed, in buckets, each tensor with its checksum.

The sender compares checksums with those that the receiver has, and puts the tensors that differ into buckets of a
bounded size; a carrier takes buckets to where the receiver can read them. So an update of adapters moves adapters.
The receiver checks every byte before it writes the first, so that a damaged update leaves it as it was; then it reads
its own tensors again and compares the fingerprint of all of them with the sender's.

Decisions: a checksum is BLAKE2b (RFC 7693) of 16 bytes. A frozen tensor of which torch has counted no in-place change
is not hashed again; one that trains is, since torch's fused optimisers change tensors without counting. A tensor larger
than a bucket is a bucket of its own. Names, shapes and types must be the receiver's own.
An update names the fingerprint that it goes on from: one that was left out is noticed, and all weights are asked for.

Covered: tensors of any type on any device, ties (pass each tensor once). Not covered: parts of a tensor, resharding
on the way (a learner in shares gathers first), transfer between accelerators (`burnish.engine.vllm_transfer`).
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from burnish.core.errors import BurnishError

Weights = Mapping[str, Tensor]
Handle = object
"""What a carrier knows a bucket by; it goes to the receiver with the update."""
BUCKET_BYTES = 64 << 20


class TransportError(BurnishError):
    """Weights did not arrive as they were sent."""


class Carrier(Protocol):
    """Takes buckets from one process to others."""

    def put(self, bucket: npt.NDArray[np.uint8]) -> Handle:
        """Keep the bytes until they are dropped."""
        ...

    def get(self, handle: Handle) -> npt.NDArray[np.uint8]:
        """The bytes, in any process; `TransportError` if they are not there."""
        ...

    def drop(self, handle: Handle) -> None:
        """Forget the bytes; safe to call twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One tensor of an update: in which bucket it lies, from which byte on, and what it must be."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    bucket: int
    start: int
    checksum: str

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.start + self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What turns weights whose fingerprint is `base` into those of `version`; without `base`, all of them."""

    version: int
    base: str
    fingerprint: str
    buckets: tuple[Handle, ...]
    pieces: tuple[Piece, ...]

    @property
    def num_bytes(self) -> int:
        """How much goes over."""
        return sum(piece.end - piece.start for piece in self.pieces)


class _Known(NamedTuple):
    tensor: "weakref.ref[Tensor]"
    num_changes: int
    checksum: str


class Checksums:
    """Checksums of named tensors; that of a frozen one is kept for as long as torch counts no change of it."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def of(self, weights: Weights) -> dict[str, str]:
        """The checksum of each."""
        return {name: self._one(name, tensor) for name, tensor in weights.items()}

    def _one(self, name: str, tensor: Tensor) -> str:
        num_changes = tensor._version  # pyright: ignore[reportPrivateUsage]  # torch has no other name for it
        known = self._known.get(name)
        if known and known.tensor() is tensor and known.num_changes == num_changes and not tensor.requires_grad:
            return known.checksum
        checksum = _checksum(_bytes_of(tensor))
        self._known[name] = _Known(weakref.ref(tensor), num_changes, checksum)
        return checksum


def fingerprint(checksums: Mapping[str, str]) -> str:
    """One name for all weights, whatever order they come in."""
    lines = "\n".join(f"{name} {checksum}" for name, checksum in sorted(checksums.items()))
    return blake2b(lines.encode(), digest_size=16).hexdigest()


def send(
    weights: Weights, checksums: Mapping[str, str], carrier: Carrier, *,
    version: int, known: Mapping[str, str] | None = None, bucket_bytes: int = BUCKET_BYTES,
) -> Update:  # fmt: skip
    """Put what differs from `known`, the receiver's checksums, into buckets; without `known`, everything."""
    base = known or {}
    changed = [name for name in weights if checksums[name] != base.get(name)]
    pieces: list[Piece] = []
    handles: list[Handle] = []
    for names in _by_size(changed, weights, bucket_bytes):
        parts = [_bytes_of(weights[name]) for name in names]
        starts = np.cumsum([0, *(len(part) for part in parts)])
        for name, start in zip(names, starts, strict=False):
            tensor = weights[name]
            pieces.append(
                Piece(
                    name=name, dtype=tensor.dtype, shape=tuple(tensor.shape), bucket=len(handles), start=int(start),
                    checksum=checksums[name],
                )
            )  # fmt: skip
        handles.append(carrier.put(np.concatenate(parts)))
    return Update(
        version=version, base=fingerprint(base) if base else "", fingerprint=fingerprint(checksums),
        buckets=tuple(handles), pieces=tuple(pieces),
    )  # fmt: skip


def drop(update: Update, carrier: Carrier) -> None:
    """Forget an update's buckets, once nobody will ask for them."""
    for handle in update.buckets:
        carrier.drop(handle)


class Receiver:
    """Tensors that follow another process's."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self._checksums = weights, Checksums()

    @property
    def fingerprint(self) -> str:
        """Of the tensors as they are now."""
        return fingerprint(self._checksums.of(self._weights))

    @torch.no_grad()
    def take(self, update: Update, carrier: Carrier) -> str:
        """Write an update into the tensors, all of it or nothing; returns the fingerprint, which is the sender's."""
        self._refuse_unfit(update)
        buckets = [_opened(update, number, carrier) for number in range(len(update.buckets))]
        for piece in update.pieces:
            _check(piece, buckets[piece.bucket][piece.start : piece.end], "arrived as")
        for piece in update.pieces:
            value = torch.empty(piece.shape, dtype=piece.dtype)
            _bytes_of(value)[:] = buckets[piece.bucket][piece.start : piece.end]
            self._weights[piece.name].copy_(value)
            _check(piece, _bytes_of(self._weights[piece.name]), "was written as")
        if (got := self.fingerprint) != update.fingerprint:
            raise TransportError(
                f"after the update to version {update.version} the weights are {got}, the sender's are "
                f"{update.fingerprint}: a tensor that was not sent is another here; send all of them"
            )
        return got

    def _refuse_unfit(self, update: Update) -> None:
        if update.base and update.base != (got := self.fingerprint):
            raise TransportError(
                f"the update to version {update.version} goes on from weights {update.base}, here are {got}: "
                "an update was left out; send all of them"
            )
        for piece in update.pieces:
            if (own := self._weights.get(piece.name)) is None:
                raise TransportError(
                    f"tensor {piece.name!r} is not known here; sender and receiver must have one model and one "
                    "[model.lora]"
                )
            if (tuple(own.shape), own.dtype) != (piece.shape, piece.dtype):
                raise TransportError(
                    f"tensor {piece.name!r} is {piece.dtype} {list(piece.shape)}, here it is {own.dtype} "
                    f"{list(own.shape)}; sender and receiver must have one model in one precision"
                )


def _opened(update: Update, number: int, carrier: Carrier) -> npt.NDArray[np.uint8]:
    """A bucket's bytes, of the size that its pieces say."""
    pieces = [piece for piece in update.pieces if piece.bucket == number]
    names = f"{pieces[0].name!r}" + (f" and {len(pieces) - 1} more" if len(pieces) > 1 else "")
    try:
        bucket = carrier.get(update.buckets[number])
    except TransportError as error:
        raise TransportError(
            f"bucket {number} of version {update.version} is missing, with {names}: {error}"
        ) from error
    if len(bucket) < (needed := max(piece.end for piece in pieces)):
        raise TransportError(
            f"bucket {number} of version {update.version}, with {names}, has {len(bucket)} bytes and not {needed}; "
            "send it again"
        )
    return bucket


def _by_size(names: Sequence[str], weights: Weights, bucket_bytes: int) -> Iterator[list[str]]:
    """Names in order, as many at a time as fit into a bucket, at least one."""
    together: list[str] = []
    size = 0
    for name in names:
        if together and size + weights[name].nbytes > bucket_bytes:
            yield together
            together, size = [], 0
        together.append(name)
        size += weights[name].nbytes
    if together:
        yield together


def _check(piece: Piece, data: npt.NDArray[np.uint8], what: str) -> None:
    if (got := _checksum(data)) != piece.checksum:
        raise TransportError(
            f"tensor {piece.name!r} was sent as {piece.checksum} and {what} {got}; its bytes are damaged, send it again"
        )


def _checksum(data: npt.NDArray[np.uint8]) -> str:
    return blake2b(data.data, digest_size=16).hexdigest()


def _bytes_of(tensor: Tensor) -> npt.NDArray[np.uint8]:
    """The bytes of a tensor in row order: those of a tensor in this host's memory that is contiguous, else a copy's."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
