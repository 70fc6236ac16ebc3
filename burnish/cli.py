"""The command `burnish`: what a person types. The top layer; each command calls one function below.

Decisions: a command imports what it needs when it runs, because `burnish --help` must answer at once
and torch takes seconds; hence the imports inside functions, here and nowhere else. Results go to
stdout, messages to stderr. `burnish.commands.manners` turns errors into messages and exit codes:
0 done, 1 the answer is no (a gate held, a check failed), 2 the user can put it right, 3 an invariant
broke, 130 stopped.
"""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from burnish import __version__
from burnish.commands.manners import polite

app = typer.Typer(
    help="Post-training of large language models, with evidence.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
tasks_app = typer.Typer(help="Look at domains: their tasks, truths and graders.", no_args_is_help=True)
sandbox_app = typer.Typer(help="What keeps code in that a model wrote.", no_args_is_help=True)
template_app = typer.Typer(help="How conversations become token ids.", no_args_is_help=True)
plan_app = typer.Typer(help="What a cluster would do with a recipe.", no_args_is_help=True)
suites_app = typer.Typer(help="What models are evaluated on.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(template_app, name="chat-template")
app.add_typer(plan_app, name="plan")
app.add_typer(suites_app, name="suites")

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="A TOML file, for example recipes/quickstart.toml.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key: --set tasks.0.weight=2. Repeatable."),
]
DomainName = Annotated[str, typer.Argument(metavar="DOMAIN", help="For example documents, code, rg:chain_sum.")]
DomainOptions = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the domain. Repeatable.")
]
Seed = Annotated[int, typer.Option(min=0, help="Equal seeds give equal tasks.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Chance = Annotated[float, typer.Option(min=0, max=0.99, help="What a guess may score; above it tasks are weak.")]
IsolationOption = Annotated[
    str, typer.Option(help="namespaces, or none: run the code with no isolation at all.", metavar="HOW")
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"burnish {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Post-training of large language models, with evidence."""


@app.command()
@polite
def run(
    recipe: RecipePath,
    assignments: Assignments = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from where the run was stopped.")] = False,
    runs: Annotated[Path, typer.Option(help="The folder that run folders are made in.")] = Path("runs"),
) -> None:
    """Run a recipe: train, evaluate, gate, export, report."""
    from burnish.commands.run import resumable, resume_command
    from burnish.core.recipe import read_recipe

    read = read_recipe(recipe, assignments or [])  # before torch is imported: a fault of the recipe shows at once
    with resumable(resume_command(recipe, assignments or [], runs)):
        from burnish.stages.runner import run_recipe

        exit_code = run_recipe(read, runs, resume=resume, source=recipe)
    raise typer.Exit(exit_code)


@app.command()
@polite
def check(recipe: RecipePath, assignments: Assignments = None) -> None:
    """Validate a recipe without running it, and print it with every default filled in."""
    from burnish.core.recipe import read_recipe

    read = read_recipe(recipe, assignments or [])
    from burnish.stages.check import check_recipe

    typer.echo(json.dumps(check_recipe(read), indent=2, ensure_ascii=False))


@app.command(name="eval")
@polite
def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Folders, names such as starter, RUN/checkpoints/NAME, or http://HOST:PORT#NAME."
        ),
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(help="A suite or layer that `burnish suites list` names, or a TOML file. Repeatable."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Other tasks of the same kinds: instead of the suite's seed.")
    ] = None,
    num: Annotated[int | None, typer.Option(min=1, help="Tasks per domain, instead of the suite's numbers.")] = None,
    api_key_env: Annotated[str, typer.Option(help="The environment variable with an endpoint's key.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask anew, whatever is kept.")] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate models on suites; without --suite, on the tasks of the run that a model comes from."""
    from burnish.commands.suites import chosen

    words = suite or []
    suites = {model: chosen(model, words, seed) for model in models}  # before torch comes: a fault shows at once
    from burnish.commands.evaluate import evaluate_command

    evaluate_command(suites, words, num=num, api_key_env=api_key_env, fresh=fresh, as_json=as_json)


@app.command()
@polite
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model as `burnish eval` was given it, or its results.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same of the other model.")],
    suite: Annotated[list[str] | None, typer.Option(help="These suites only. Repeatable.")] = None,
    flips: Annotated[int, typer.Option(min=0, help="How many tasks of each suite to show that flipped.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Say which of two models is better where, with p-values, and which tasks flipped."""
    from burnish.commands.compare import compare_command

    compare_command(first, second, suite or [], most_flips=flips, as_json=as_json)


@app.command()
@polite
def contamination(
    path: Annotated[
        Path, typer.Argument(metavar="RECIPE_OR_RUN_OR_FILE", help="What trains: a recipe, a run folder, a file.")
    ],
    suite: Annotated[list[str] | None, typer.Option(help="These suites or layers; without it, all that ship.")] = None,
    num: Annotated[int, typer.Option(min=1, help="Tasks of each source that is generated without end.")] = 1000,
    is_fatal: Annotated[bool, typer.Option("--fatal", help="Exit with 1 if anything overlaps.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for training texts in evaluation suites: 13 words or 50 characters in a row."""
    from burnish.commands.contamination import contamination_command

    raise typer.Exit(contamination_command(path, suite or [], num, is_fatal=is_fatal, as_json=as_json))


@app.command()
@polite
def chat(
    model: Annotated[str, typer.Argument(help="A model folder, hub id, .gguf file or name such as starter.")],
) -> None:
    """Talk to a model."""
    from burnish.stages import chat as stage

    stage.chat(model)


@app.command()
@polite
def export(
    source: Annotated[
        Path, typer.Argument(metavar="RUN_OR_CHECKPOINT", help="A run folder or one of its checkpoints.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; it must not exist.")],
) -> None:
    """Write a plain Hugging Face folder from a run or a checkpoint."""
    from burnish.stages import export as stage

    stage.export(source, out)


@app.command()
@polite
def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    as_json: AsJson = False,
) -> None:
    """Repeat a run's asynchronous stages from its ledger; 1 if other weights come out."""
    from burnish.commands.replay import replay_command

    raise typer.Exit(0 if replay_command(run, as_json=as_json) else 1)


@app.command(name="replay-episode")
@polite
def replay_episode(
    run: Annotated[Path, typer.Argument(help="A run folder, for example runs/terminal.")],
    episode: Annotated[str, typer.Argument(metavar="ID", help="GROUP/MEMBER of stage rl, or a task's id.")],
    pause_s: Annotated[float, typer.Option(min=0, help="Seconds between turns.")] = 0.0,
) -> None:
    """Play an episode of a run, turn by turn."""
    from burnish.commands.replay_episode import replay_episode

    replay_episode(run, episode, pause_s=pause_s)


@app.command()
@polite
def postmortem(run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Say how a run ended, and if by a fault, what it was doing."""
    from burnish.commands import postmortem as command

    command.postmortem(run)


@app.command()
@polite
def verify(
    domain: DomainName,
    task_id: Annotated[
        str, typer.Argument(metavar="TASK_ID", help="DOMAIN/SPLIT/SEED/INDEX, as `tasks sample` prints it.")
    ],
    reply: Annotated[Path, typer.Option(help="The file that holds the reply; - reads standard input.")],
    options: DomainOptions = None,
    isolation: IsolationOption = "namespaces",
) -> None:
    """Judge a reply and explain the verdict part by part."""
    from burnish.commands.verify import verify_command

    verify_command(domain, task_id, reply, options or [], isolation)


@tasks_app.command(name="list")
@polite
def tasks_list() -> None:
    """List the domains that are installed."""
    from burnish.commands.tasks import list_domains

    list_domains()


@tasks_app.command(name="show")
@polite
def tasks_show(domain: DomainName) -> None:
    """Print a domain's state, action and reward."""
    from burnish.commands.tasks import show_domain

    show_domain(domain)


@tasks_app.command(name="sample")
@polite
def tasks_sample(
    domain: DomainName,
    n: Annotated[int, typer.Option("--n", min=1, help="How many tasks.")] = 3,
    seed: Seed = 1,
    split: Annotated[str, typer.Option(help="train or eval.")] = "train",
    options: DomainOptions = None,
) -> None:
    """Print tasks: what is asked, the hidden truth, and a reply that scores 1."""
    from burnish.commands.tasks import sample_domain

    sample_domain(domain, n, seed, split, options or [])


@tasks_app.command(name="check")
@polite
def tasks_check(
    domain: DomainName,
    n: Annotated[int, typer.Option("--n", min=1, help="How many tasks of each split.")] = 20,
    seed: Seed = 1,
    options: DomainOptions = None,
    isolation: IsolationOption = "namespaces",
    chance: Chance = 0.1,
    as_json: AsJson = False,
) -> None:
    """Prove that gold scores 1, that nothing, junk and hostile replies score 0, and that verdicts agree."""
    from burnish.commands.check_domain import check_domain

    raise typer.Exit(check_domain(domain, n, seed, options or [], isolation, chance=chance, as_json=as_json))


@tasks_app.command(name="build")
@polite
def tasks_build(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="ladder: small generated tasks; packages: real code.")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist.")],
    num: Annotated[int, typer.Option("--n", min=1, help="How many tasks.")] = 2000,
    seed: Seed = 0,
    only: Annotated[list[str] | None, typer.Option(help="Only this family or package. Repeatable.")] = None,
    work: Annotated[Path | None, typer.Option(help="Keeps what was tried, to go on from; OUT.work without it.")] = None,
    index: Annotated[str, typer.Option(help="The package index that sdists come from.")] = "https://pypi.org/simple",
    isolation: IsolationOption = "namespaces",
    workers: Annotated[int, typer.Option(min=1, help="How many faults are tried at once.")] = 2,
) -> None:
    """Build terminal tasks into a folder that the domain terminal:FOLDER opens."""
    from burnish.commands.tasks_build import build_command

    build_command(kind, out, num, seed, only or [], work, index, isolation, workers)


@tasks_app.command(name="import")
@polite
def tasks_import(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Task folders, or SWE rows as JSONL.")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist.")],
    sources: Annotated[Path | None, typer.Option(help="Holds the source trees of SWE rows, by INSTANCE_ID.")] = None,
) -> None:
    """Import tasks of other systems for terminal:FOLDER; say which need a container that this host lacks."""
    from burnish.commands.tasks_exchange import import_command

    import_command(path, out, sources)


@tasks_app.command(name="export")
@polite
def tasks_export(
    store: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `tasks build` or `tasks import` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder to write task folders into.")],
    split: Annotated[str, typer.Option(help="train or eval.")] = "train",
    num: Annotated[int | None, typer.Option("--n", min=1, help="How many; all without it.")] = None,
) -> None:
    """Export terminal tasks as Harbor task folders."""
    from burnish.commands.tasks_exchange import export_command

    export_command(store, out, split, num)


@suites_app.command(name="list")
@polite
def suites_list() -> None:
    """List the suites that ship, by layer."""
    from burnish.commands.suites import list_suites

    list_suites()


@suites_app.command(name="show")
@polite
def suites_show(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE...", help="Suites, layers, or TOML files.")],
    as_json: AsJson = False,
) -> None:
    """Print what suites come to, and the hash that pins their tasks."""
    from burnish.commands.suites import show_suites

    show_suites(suites, as_json=as_json)


@suites_app.command(name="check")
@polite
def suites_check(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE...", help="Suites, layers, or TOML files.")],
    num: Annotated[int | None, typer.Option(min=1, help="Tasks per domain, instead of the suite's numbers.")] = None,
    as_json: AsJson = False,
) -> None:
    """Try what replies that know nothing earn; 1 if a suite is weak."""
    from burnish.commands.suites import check_suites

    raise typer.Exit(check_suites(suites, num, as_json=as_json))


@template_app.command(name="check")
@polite
def chat_template_check(
    model: Annotated[str, typer.Argument(help="A model folder, hub id, .gguf file or name such as starter.")],
    as_json: AsJson = False,
) -> None:
    """Prove of a model's chat template what training needs: round trip, appending, ends, look-alikes, tools."""
    from burnish.commands.chat_template import check_template

    raise typer.Exit(check_template(model, as_json=as_json))


@sandbox_app.command(name="doctor")
@polite
def sandbox_doctor() -> None:
    """Say whether this machine can isolate code, and what is missing if not."""
    from burnish.commands.doctor import tell
    from burnish.sandbox import missing

    raise typer.Exit(tell(missing()))


@sandbox_app.command(name="serve")
@polite
def sandbox_serve(
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this host's need --cert.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one and prints it.")] = 8433,
    isolation: IsolationOption = "namespaces",
    workers: Annotated[int, typer.Option(min=1, help="How many jobs and commands run at once.")] = 2,
    token_file: Annotated[
        Path | None, typer.Option(help="Holds the token that clients must have; else BURNISH_SANDBOX_TOKEN does.")
    ] = None,
    cert: Annotated[Path | None, typer.Option(help="Certificate chain for TLS, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key, PEM.")] = None,
) -> None:
    """Run code for other hosts: what `isolation = "remote"` talks to."""
    from burnish.commands.sandbox_server import serve

    serve(host, port, isolation, workers, token_file, cert, key)


@plan_app.command(name="simulate")
@polite
def plan_simulate(
    cluster: Annotated[
        Path, typer.Argument(metavar="CLUSTER", help="A TOML file, for example recipes/cluster_small.toml.")
    ],
    assignments: Assignments = None,
    policies: Annotated[bool, typer.Option("--policies", help="Compare the scheduler's policies.")] = False,
    splits: Annotated[bool, typer.Option("--splits", help="Find the best split of learner and engines.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the scheduler on a virtual clock: utilisation, staleness, time per step, and the bound."""
    from burnish.commands.plan import simulate_command

    simulate_command(cluster, assignments or [], with_policies=policies, with_splits=splits, as_json=as_json)


@plan_app.command(name="fit")
@polite
def plan_fit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a finished stage rl.")],
    stage: Annotated[
        str | None, typer.Option("--stage", help="Which one, for example 3-rl, where there are several.")
    ] = None,
) -> None:
    """Print the cluster that a run shows, as JSON that `plan simulate` reads."""
    from burnish.commands.plan_fit import fit_command

    fit_command(run, stage)


def main() -> None:
    """Run the command line; the entry point of the `burnish` script."""
    # Threads that wait without spinning: beside a sandbox job, spinning ones take four times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    app()
