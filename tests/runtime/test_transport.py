"""Weights arrive whole or not at all, and only those that changed go over."""

import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from burnish.models.lora import add_lora, trainable
from burnish.runtime.carriers import FileCarrier, MemoryCarrier
from burnish.runtime.shelf import Shelf
from burnish.runtime.transport import Checksums, Receiver, TransportError, Update, drop, fingerprint, send
from tests.fakes import tiny_loaded


def some_weights() -> dict[str, Tensor]:
    """Several types, a scalar, an empty tensor, one that is not contiguous."""
    numbers = torch.Generator().manual_seed(5)
    return {
        "wide": torch.randn(6, 5, generator=numbers).T,
        "half": torch.randn(7, generator=numbers).bfloat16(),
        "scalar": torch.tensor(3.5, dtype=torch.float64),
        "none": torch.zeros(0, 4),
        "flags": torch.tensor([True, False, True]),
    }


def empty_like(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(tensor) for name, tensor in weights.items()}


class Sender:
    """The sender's side of a few updates."""

    def __init__(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        self.carrier, self.weights = FileCarrier(folder), weights
        self._sums, self._known = Checksums(), {}

    def update(self, *, bucket_bytes: int = 64, whole: bool = False) -> Update:
        sums = self._sums.of(self.weights)
        known = {} if whole else self._known
        self._known = sums
        return send(self.weights, sums, self.carrier, version=3, known=known, bucket_bytes=bucket_bytes)


@pytest.mark.parametrize("bucket_bytes", [1, 30, 1 << 20])
def test_all_types_and_shapes_arrive_bit_by_bit(bucket_bytes: int, tmp_path: Path) -> None:
    weights = some_weights()
    there, sender = empty_like(weights), Sender(tmp_path, weights)
    update = sender.update(bucket_bytes=bucket_bytes)
    assert Receiver(there).take(update, sender.carrier) == fingerprint(Checksums().of(weights))
    for name, tensor in weights.items():
        assert torch.equal(there[name], tensor), name
    assert len(update.buckets) == {1: 5, 30: 2, 1 << 20: 1}[bucket_bytes]


def test_a_second_update_moves_only_what_changed(tmp_path: Path) -> None:
    weights = some_weights()
    receiver, sender = Receiver(empty_like(weights)), Sender(tmp_path, weights)
    receiver.take(sender.update(), sender.carrier)
    weights["half"][2] = 9
    update = sender.update()
    assert [piece.name for piece in update.pieces] == ["half"]
    assert update.num_bytes == 14
    assert receiver.take(update, sender.carrier) == update.fingerprint


def test_training_adapters_moves_only_adapters(tmp_path: Path) -> None:
    model = tiny_loaded().model
    add_lora(model, rank=2, alpha=4, targets="all-linear", seed=1)
    weights = dict(model.named_parameters())
    receiver, sender = Receiver(empty_like(weights)), Sender(tmp_path, weights)
    receiver.take(sender.update(bucket_bytes=1 << 16), sender.carrier)
    with torch.no_grad():
        for parameter in trainable(model).values():
            parameter += 1
    update = sender.update()
    assert {piece.name for piece in update.pieces} == trainable(model).keys()
    receiver.take(update, sender.carrier)


def test_a_damaged_byte_is_an_error_that_names_the_tensor_and_writes_nothing(tmp_path: Path) -> None:
    weights = some_weights()
    there, sender = empty_like(weights), Sender(tmp_path, weights)
    update = sender.update(bucket_bytes=1 << 20)
    path = Path(str(update.buckets[0]))
    bucket = bytearray(path.read_bytes())
    bucket[next(piece.start for piece in update.pieces if piece.name == "scalar")] ^= 1
    path.write_bytes(bucket)
    with pytest.raises(TransportError, match="'scalar' was sent as"):
        Receiver(there).take(update, sender.carrier)
    assert not any(tensor.any() for tensor in there.values())


def test_a_missing_or_short_bucket_names_what_it_held(tmp_path: Path) -> None:
    weights = some_weights()
    receiver, sender = Receiver(empty_like(weights)), Sender(tmp_path, weights)
    update = sender.update(bucket_bytes=30)
    Path(str(update.buckets[1])).write_bytes(b"short")
    with pytest.raises(TransportError, match=r"bucket 1 of version 3, with 'half'.* has 5 bytes"):
        receiver.take(update, sender.carrier)
    drop(update, sender.carrier)
    with pytest.raises(TransportError, match="bucket 0 of version 3 is missing, with 'wide'"):
        receiver.take(update, sender.carrier)
    assert not list(tmp_path.iterdir())


def test_an_update_that_was_left_out_is_noticed(tmp_path: Path) -> None:
    weights = some_weights()
    receiver, sender = Receiver(empty_like(weights)), Sender(tmp_path, weights)
    receiver.take(sender.update(), sender.carrier)
    weights["scalar"] += 1
    sender.update()
    weights["scalar"] += 1
    with pytest.raises(TransportError, match="an update was left out"):
        receiver.take(sender.update(), sender.carrier)
    receiver.take(sender.update(whole=True), sender.carrier)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "other"}, "'other' is not known here"),
        ({"shape": (1, 7)}, r"'half' is torch.bfloat16 \[1, 7\], here it is torch.bfloat16 \[7\]"),
        ({"dtype": torch.float16}, "'half' is torch.float16"),
    ],
)
def test_an_update_of_another_model_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    weights = {"half": some_weights()["half"]}
    sender = Sender(tmp_path, weights)
    update = sender.update()
    other = replace(update, pieces=(replace(update.pieces[0], **change),))
    with pytest.raises(TransportError, match=message):
        Receiver(empty_like(weights)).take(other, sender.carrier)


def test_a_receiver_that_has_a_tensor_more_than_the_sender_is_noticed(tmp_path: Path) -> None:
    weights = some_weights()
    sender = Sender(tmp_path, weights)
    receiver = Receiver(empty_like(weights) | {"more": torch.zeros(1)})
    with pytest.raises(TransportError, match="a tensor that was not sent is another here"):
        receiver.take(sender.update(), sender.carrier)


def test_an_unchanged_tensor_is_not_hashed_again_and_a_changed_one_is() -> None:
    weights = {"a": torch.zeros(3)}
    sums = Checksums()
    before = sums.of(weights)
    weights["a"].numpy()[:] = np.ones(3)  # behind torch's back: only a second hash would see it
    assert sums.of(weights) == before
    weights["a"].add_(0)
    assert sums.of(weights) != before


def test_a_tensor_that_trains_is_hashed_each_time() -> None:
    weights = {"a": torch.zeros(3, requires_grad=True)}
    sums = Checksums()
    before = sums.of(weights)
    weights["a"].detach().numpy()[:] = np.ones(3)  # as a fused optimiser does
    assert sums.of(weights) != before


def test_one_who_comes_late_has_all_weights_from_the_shelf(tmp_path: Path) -> None:
    weights = some_weights()
    sender, shelf = Sender(tmp_path, weights), Shelf()
    receiver = Receiver(empty_like(weights))
    for change in ("half", "scalar", "wide"):
        update = sender.update(bucket_bytes=30)
        outdated = shelf.add(update)
        receiver.take(update, sender.carrier)
        for handle in outdated:
            sender.carrier.drop(handle)
        weights[change] += 1
    update = sender.update(bucket_bytes=30)
    assert len(shelf.add(update)) == 1
    receiver.take(update, sender.carrier)
    late = empty_like(weights)
    assert Receiver(late).take(shelf.whole(), sender.carrier) == receiver.fingerprint
    assert all(torch.equal(late[name], tensor) for name, tensor in weights.items())
    shelf.clear(sender.carrier)
    shelf.clear(sender.carrier)


def test_memory_is_read_by_another_carrier_until_it_is_dropped() -> None:
    carrier = MemoryCarrier()
    other = pickle.loads(pickle.dumps(carrier))
    handle = carrier.put(np.arange(5, dtype=np.uint8))
    empty = carrier.put(np.empty(0, np.uint8))
    assert other.get(handle).tolist() == [0, 1, 2, 3, 4]
    assert other.get(empty).tolist() == []
    other.drop(handle)
    other.get(handle)
    for each in (handle, empty, handle):
        carrier.drop(each)
    with pytest.raises(TransportError):
        other.get(handle)
