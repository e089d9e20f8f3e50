"""The command line: its commands and options; what they do is in the other files, one a command.

Heavy imports wait until a command runs, so that help is instant.

Exit codes: 0 done; 1 something else failed (a full disk, say); 2 wrong usage; 3 bad data, with
``file:line:column``; 4 bad model or checkpoint; 130 interrupted. On any error nothing is written
but the checkpoint that was asked for.
"""

from enum import StrEnum
from typing import Annotated

import typer

from tunefree.cli.console import INTERRUPTED, outcomes

app = typer.Typer(
    help="Tuning-free linear learning: no step size, no grid, no cross-validation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Task = StrEnum("Task", ["auto", "classification", "regression"])
Estimator = StrEnum("Estimator", ["auto", "pistol", "kernel", "reflectron", "ridge", "separator"])
Solver = StrEnum("Solver", ["auto", "sgd", "exact"])
Format = StrEnum("Format", ["libsvm", "csv", "jsonl", "parquet", "arrow", "npy", "npz"])
RowFormat = StrEnum("RowFormat", ["libsvm", "csv", "jsonl"])
BadRow = StrEnum("BadRow", ["error", "skip"])

DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="libsvm, csv (also .tsv) or .jsonl, by suffix or content, also .gz, .zst, .bz2, .zip; "
        ".parquet, .arrow, .npy, .npz; - for stdin",
    ),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="the model file")]
Target = Annotated[
    str | None,
    typer.Option(help="csv: name or position of the target column (default: the last)"),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="csv: whether line 1 holds names (default: guess)"),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weights", "--weight-column", metavar="COLUMN", help="csv: a column of row weights"
    ),
]
FormatOption = Annotated[Format | None, typer.Option(help="overrule suffix and content")]
Features = Annotated[
    int | None, typer.Option(min=1, help="libsvm: number of features, if more than occur")
]
Passes = Annotated[int | None, typer.Option(min=1, help="passes over the data (default: chosen)")]
Seed = Annotated[int, typer.Option(min=0, help="the same seed gives the same model")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]


def _columns(target, header, weight_column, format):
    """What the readers must know of a file."""
    return {
        "target": target,
        "header": header,
        "weight_column": weight_column,
        "format": format and str(format),
    }


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
):
    if version:
        from tunefree._version import __version__

        typer.echo(f"tunefree {__version__}")
        raise typer.Exit()


@app.command()
def train(
    data: DataFile,
    model: ModelFile,
    target: Target = None,
    header: Header = None,
    weight_column: Weight = None,
    task: Annotated[
        Task,
        typer.Option(
            help="auto: classification if the target is text, has two whole-number values, "
            "or at most 20 of them, each at least twice on average"
        ),
    ] = Task.auto,
    estimator: Annotated[
        Estimator,
        typer.Option(
            help="auto: linear and kernel candidates race; pistol: linear; kernel: of any "
            "shape; reflectron: sparse generalized linear; ridge: least squares with the "
            "penalty chosen; separator: a hyperplane with a certified margin"
        ),
    ] = Estimator.auto,
    link: Annotated[
        str | None,
        typer.Option(
            help="of reflectron: the mean as a function of the score: identity, logistic, probit, "
            "..., learned, auto (default: the family's; identity for regression, else logistic)"
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="of reflectron: what the target is: poisson, gamma, tweedie, negative_binomial, "
            "binomial, huber, quantile, ordinal, ..., auto (default: numbers, or classes)"
        ),
    ] = None,
    categories: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,...,HIGH",
            help="of --family ordinal: grades that are text, from the lowest to the highest",
        ),
    ] = None,
    exposure: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="of reflectron: name or position of a column that says how long, or how many, the "
            "target was counted over; predict and eval read it, too",
        ),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="of reflectron: a column of known terms of the score"),
    ] = None,
    potential: Annotated[
        str | None,
        typer.Option(
            help="of reflectron: the geometry: euclidean, hypentropy, p_norm, ... (default: chosen)"
        ),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="of auto: name or position of a column whose numbers stand for categories; may be "
            "said several times",
        ),
    ] = None,
    compress: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LANDMARKS",
            help="of auto: the most landmarks of a kernel, to predict faster; the price is told",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="of auto: what judging and fitting may take by the clock, such as 30s or 5min",
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="of auto: memory beside the data, such as 2GB"),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            metavar="SCORER",
            help="of auto: what decides between the stack and one candidate alone, by "
            "scikit-learn's name: roc_auc, balanced_accuracy, neg_mean_absolute_error, ...",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="of auto: rows of equal values belong together, and are left out together; the "
            "column is no feature",
        ),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="a column that is no feature (see predict)"),
    ] = None,
    n_features: Features = None,
    passes: Passes = None,
    seed: Seed = 0,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="save the run there, now and then and on Ctrl-C"),
    ] = None,
    every: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="rows between two checkpoints")
    ] = 1_000_000,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the checkpoint")] = False,
    hashed: Annotated[
        int | None,
        typer.Option(
            "--hash",
            min=1,
            metavar="COLUMNS",
            help="csv, parquet, arrow: columns may hold text; hash names and values into so many",
        ),
    ] = None,
    window: Annotated[
        int, typer.Option(min=0, metavar="ROWS", help="shuffle within windows of so many rows")
    ] = 0,
    on_bad_row: Annotated[
        BadRow, typer.Option(help="skip: leave malformed rows out and count them")
    ] = BadRow.error,
    format: FormatOption = None,
    json: Json = False,
):
    """Train on DATA and write MODEL: nothing to tune.

    Files above 256 MiB, and more than 32 MiB of standard input, are learned as they are read, and
    so is what has a checkpoint, hashed columns or shuffled windows: by pistol, unless you say ridge
    or reflectron (of a file also separator).
    """
    with outcomes():
        from tunefree.cli.train import EstimatorSpec, run_train

        run_train(
            data,
            model,
            task=str(task),
            make=EstimatorSpec(
                str(estimator),
                seed,
                passes,
                {
                    "link": link,
                    "potential": potential,
                    "family": family,
                    "categories": categories,
                },
                categorical or [],
                {
                    "compress": compress,
                    "budget": budget,
                    "max_memory": max_memory,
                    "scoring": scoring,
                },
                {
                    name: column
                    for name, column in (
                        ("exposure", exposure),
                        ("offset", offset),
                        ("groups", groups),
                        ("id", id_),
                    )
                    if column is not None
                },
            ),
            run={"checkpoint": checkpoint, "every": every, "resume": resume},
            stream={"hashed": hashed, "window": window, "on_bad_row": str(on_bad_row)},
            as_json=json,
            n_features=n_features,
            **_columns(target, header, weight_column, format),
        )


@app.command()
def predict(
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="write there instead of to stdout: .csv with a header, .jsonl or .parquet, else "
            "as to stdout",
        ),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="a column of DATA to stand before every prediction"
        ),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="class probabilities as csv, after a line of classes")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="also the ends of an interval that holds this share of targets, as csv: .9, say",
        ),
    ] = None,
    set_: Annotated[
        float | None,
        typer.Option(
            "--set",
            metavar="SHARE",
            help="also the classes of a set that holds this share of labels: csv, 1 for those in",
        ),
    ] = None,
    header: Header = None,
    format: FormatOption = None,
):
    """Print one prediction a line for DATA.

    Columns of a csv file are matched by name if MODEL and DATA have names; a target or weight
    column may be there or not. Features of a libsvm file that MODEL has never seen are ignored.
    """
    with outcomes():
        from tunefree.cli.apply import run_predict

        asked = {"proba": proba, "interval": interval, "set": set_}
        how = {"header": header, "format": format and str(format)}
        run_predict(model, data, output, asked, id_, **how)


@app.command("eval")
def evaluate(
    model: ModelFile,
    data: DataFile,
    target: Target = None,
    header: Header = None,
    weight_column: Weight = None,
    format: FormatOption = None,
    json: Json = False,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="also write the page of `report`")
    ] = None,
):
    """Compare the predictions for DATA with its targets.

    Prints error, log-loss and AUC (two classes), or mse, mae and r2; the number of rows n; and an
    interval for the risk on more rows like these.
    """
    with outcomes():
        from tunefree.cli.apply import run_eval

        run_eval(model, data, json, html, **_columns(target, header, weight_column, format))


@app.command()
def path(
    data: DataFile,
    alphas: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="penalties, as in Ridge (default: 50 for the data)"),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="write every coefficient there, as csv"),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="PNG", help="draw the path there (needs matplotlib)")
    ] = None,
    solver: Annotated[
        Solver, typer.Option(help="auto: exact where that is cheaper, else averages of SGD")
    ] = Solver.auto,
    target: Target = None,
    header: Header = None,
    weight_column: Weight = None,
    n_features: Features = None,
    passes: Passes = None,
    seed: Seed = 0,
    format: FormatOption = None,
    json: Json = False,
):
    """Print the regularization path of least squares for DATA: every penalty with its score.

    The score is the mean squared error on rows held out (or left out one by one).
    """
    with outcomes():
        from tunefree.cli.path import run_path

        run_path(
            data,
            alphas,
            solver=str(solver),
            out=out,
            plot=plot,
            seed=seed,
            passes=passes,
            as_json=json,
            n_features=n_features,
            **_columns(target, header, weight_column, format),
        )


@app.command()
def report(
    model: ModelFile,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="rows with targets to compare with")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="the page (default: MODEL.html)")
    ] = None,
    target: Target = None,
    header: Header = None,
    weight_column: Weight = None,
    format: FormatOption = None,
):
    """Write one HTML page about MODEL: what was tried and chosen, how it does on DATA.

    The page holds everything it shows and needs no network.
    """
    with outcomes():
        from tunefree.cli.page import run_report

        run_report(model, data, output, **_columns(target, header, weight_column, format))


@app.command()
def inspect(model: ModelFile, json: Json = False):
    """Show what MODEL holds: estimator, data, choice of setting, versions, largest weights."""
    with outcomes():
        from tunefree.cli.report import run_inspect

        run_inspect(model, json)


@app.command()
def stream(
    data: DataFile,
    target: Target = None,
    header: Header = None,
    task: Annotated[Task, typer.Option(help="auto: as train, by the first rows")] = Task.auto,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="write predictions there, with intervals or sets"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="FILE", help="save what was learned in the end")
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="share of rows that intervals or sets may miss: .01 to .5")
    ] = 0.1,
    delay: Annotated[
        int, typer.Option(min=0, metavar="ROWS", help="labels come so many rows late")
    ] = 0,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="save the run there, now and then and on Ctrl-C"),
    ] = None,
    every: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="rows between two checkpoints")
    ] = 100_000,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the checkpoint")] = False,
    on_bad_row: Annotated[
        BadRow, typer.Option(help="skip: leave malformed rows out and count them")
    ] = BadRow.error,
    format: Annotated[RowFormat | None, typer.Option(help="overrule suffix and content")] = None,
    json: Json = False,
):
    """Predict each row of DATA (also .jsonl), then learn it: for data that come and drift.

    Prints the running error whenever the number of rows has doubled. Text and gaps are welcome; a
    row without a target is predicted only.
    """
    with outcomes():
        from tunefree.cli.stream import run_stream

        run_stream(
            data,
            task=str(task),
            output=output,
            model=model,
            alpha=alpha,
            delay=delay,
            checkpoint=checkpoint,
            every=every,
            resume=resume,
            on_bad_row=str(on_bad_row),
            as_json=json,
            format=format and str(format),
            target=target,
            header=header,
        )


@app.command()
def demo(
    png: Annotated[
        str | None, typer.Option(metavar="FILE", help="where to draw (needs matplotlib)")
    ] = None,
    write_data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="also write small csv and libsvm files to train on"),
    ] = None,
):
    """Show one call on a mixed table, a regression and digits, beside peers, and write a report."""
    with outcomes():
        from tunefree.cli.demo import run_demo

        run_demo(png, write_data)


def main():
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:  # before or after a command's own handling
        raise SystemExit(INTERRUPTED) from None
