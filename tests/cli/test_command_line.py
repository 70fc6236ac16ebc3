"""The command line answers at once, and its errors are messages."""

import subprocess
import sys

import pytest

import burnish as package
from burnish.commands.doctor import tell

IMPORTED = """
import sys
from burnish.cli import main
try:
    main()
except SystemExit:
    pass
print("HEAVY", sorted({"torch", "transformers", "pyarrow", "reasoning_gym"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "--version",
        "tasks list",
        "tasks sample documents",
        "sandbox doctor",
        "run no.toml",
        "eval x --suite no",
    ],
)
def test_no_heavy_package_is_imported_where_none_is_needed(start, arguments):
    stdout, stderr = start(IMPORTED, *arguments.split()).communicate(timeout=60)
    assert stdout.splitlines()[-1] == "HEAVY []", stderr


def test_help_names_every_command(burnish):
    text = burnish("--help").stdout
    assert [word for word in "run check eval chat export verify tasks sandbox".split() if word not in text] == []


def test_the_version_is_the_packages(burnish):
    assert burnish("--version").stdout == f"burnish {package.__version__}\n"


def test_an_unknown_command_is_a_usage_error(refusal):
    assert "rnu" in refusal("rnu")


@pytest.mark.parametrize("command", ["run", "check"])
def test_an_unknown_key_in_a_recipe_is_named_with_the_close_one(refusal, recipe, command):
    recipe.write_text(recipe.read_text().replace("domain =", "domian ="))
    assert "r.toml: unknown key 'tasks.0.domian'; did you mean 'domain'?" in refusal(command, recipe)


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("sead=1", "unknown key 'sead'; did you mean 'seed'?"),
        ("zzz.y=1", "unknown key 'zzz'; known keys: engine, episodes, learner, model, name"),
        ("seed", "expected KEY=VALUE"),
        ("seed=-1", "'seed': Input should be greater than or equal to 0; got -1"),
    ],
)
def test_a_wrong_assignment_says_what_would_be_right(refusal, recipe, command, assignment, expected):
    assert expected in refusal(command, recipe, "--set", assignment)


def test_a_missing_recipe_is_named(refusal, tmp_path):
    assert "no file" in refusal("run", tmp_path / "none.toml")


def test_a_stage_that_does_not_exist_lists_those_that_do(refusal, recipe):
    assert "no plugin 'stf' in stages; there are:" in refusal("check", recipe, "--set", "stages.0.use=stf")


def test_an_unknown_option_of_a_stage_is_named(refusal, recipe):
    assert "unknown key" in refusal("check", recipe, "--set", "stages.0.no_such_option=1")


def test_a_domain_that_does_not_exist_lists_those_that_do(refusal, recipe):
    assert "no plugin 'dox' in domains; there are: " in refusal("check", recipe, "--set", "tasks.0.domain=dox")


def test_a_recipe_that_is_right_is_printed_whole(burnish, recipe):
    result = burnish("check", recipe, "--set", "seed=7")
    assert (result.exit_code, result.stderr) == (0, "")
    assert '"seed": 7' in result.stdout
    assert '"num_eval": 200' in result.stdout


def test_a_model_folder_that_is_missing_is_named(refusal):
    assert "/no/such/model" in refusal("eval", "/no/such/model")


def test_a_suite_with_an_unknown_key_is_named(refusal, tmp_path):
    (tmp_path / "suite.toml").write_text('[[tasks]]\ndomain = "documents"\nnum_evals = 3\n')
    message = refusal("eval", "tiny", "--suite", tmp_path / "suite.toml")
    assert "suite.toml: unknown key 'tasks.0.num_evals'; did you mean 'num_eval'?" in message


def test_a_run_folder_below_a_file_is_refused_with_the_way_out(refusal, recipe):
    message = refusal("run", recipe, "--runs", recipe / "runs")
    assert str(recipe) in message
    assert "--runs" in message


def test_the_doctor_says_what_is_missing_and_its_exit_code_says_whether(capsys):
    assert tell([]) == 0
    assert tell(["user namespaces: switched off"]) == 1
    assert "missing:\n  user namespaces: switched off\n" in capsys.readouterr().out


def test_the_package_runs_as_the_script_does() -> None:
    done = subprocess.run([sys.executable, "-m", "burnish", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "Usage:" in done.stdout
