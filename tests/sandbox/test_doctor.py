"""The doctor names each wall, says how to get what is missing, and tries the escapes."""

from burnish.commands.doctor import tell
from burnish.sandbox import selftest, walls
from burnish.sandbox.inside import landlock


def test_every_layer_is_named_and_a_missing_one_has_a_way(box):
    found = walls.all_layers()
    names = {layer.name for layer in found}
    assert {"namespace net", "seccomp", "Landlock", "cgroup memory limit", "uid", "overlayfs", "deadlines"} <= names
    assert all(layer.way for layer in found if not layer.is_active)
    (wall,) = [layer for layer in found if layer.name == "Landlock"]
    assert wall.is_active == (landlock.abi() > 0)


def test_a_good_host_is_told_what_was_tried(box, capsys):
    assert tell([]) == 0
    said = capsys.readouterr().out
    assert all(f"tried and held: {attempt}" in said for attempt in selftest.ATTEMPTS)
    assert "backend namespaces: available" in said


def test_a_missing_part_is_told_and_nothing_is_tried(capsys):
    assert tell(["a newer kernel"]) == 1
    said = capsys.readouterr().out
    assert "cannot isolate" in said and "a newer kernel" in said and "tried" not in said
