"""Plugins: the file name is the name, and a wrong name says what there is."""

import sys

import pytest

from burnish.core import plugins
from burnish.core.errors import ConfigError


def test_a_file_with_its_folders_hook_is_a_plugin_and_others_are_shared_code():
    assert "grpo" in plugins.names("objectives")
    assert not {"ops", "__init__"} & set(plugins.names("objectives"))


def test_listing_plugins_imports_none_of_them():
    before = set(sys.modules)
    plugins.names("domains")
    plugins.docstring("domains", plugins.names("domains")[0])
    assert not [name for name in set(sys.modules) - before if name.startswith("burnish.domains.")]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"no plugin 'grop' in objectives; there are: .*grpo, .*reinforce"):
        plugins.load("objectives", "grop")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package.thing", "no module 'no_such_package.thing' for domains"),
        (".relative", "no module '.relative' for domains"),
        ("...", "no module '...' for domains"),
        ("json.decoder", "'json.decoder' is no plugin for domains: it defines no function 'load'"),
    ],
)
def test_a_dotted_name_that_is_no_plugin_says_why(name, message):
    with pytest.raises(ConfigError, match=message):
        plugins.load("domains", name)


def test_a_dotted_name_loads_from_outside_with_its_docstring(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.py").write_text('"""My own."""\ndef load(argument, options): ...\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert plugins.docstring("domains", "elsewhere.mine") == "My own."


def test_a_missing_package_inside_an_outside_plugin_is_its_own_error(tmp_path, monkeypatch):
    (tmp_path / "broken_plugin").mkdir()
    (tmp_path / "broken_plugin" / "mine.py").write_text("import no_such_package_inside\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_package_inside"):
        plugins.load("domains", "broken_plugin.mine")
