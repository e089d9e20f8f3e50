"""What each command takes: a class whose docstring and fields make the help screen."""

from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

# Panels of the help screens.
_AUTO, _GLM = "Options of --estimator auto", "Options of --estimator glm"
_LARGE = "Large files and interrupted runs"


def _option(panel, metavar, help, *flags, min=None) -> Any:
    """An option, in a panel of the help screen (None: the first one)."""
    return typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=panel, min=min)


Task = StrEnum("Task", ["auto", "classification", "regression"])
Estimator = StrEnum(
    "Estimator", ["auto", "trees", "pistol", "kernel", "glm", "reflectron", "ridge", "separator"]
)
Solver = StrEnum("Solver", ["auto", "sgd", "exact"])
Format = StrEnum("Format", ["libsvm", "csv", "jsonl", "parquet", "arrow", "npy", "npz"])
RowFormat = StrEnum("RowFormat", ["libsvm", "csv", "jsonl"])
BadRow = StrEnum("BadRow", ["error", "skip"])

DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="csv (also .tsv), libsvm, .jsonl, .parquet, .arrow, .npy or .npz; text also as .gz, "
        ".zst, .bz2 or .zip; - for standard input",
    ),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="the model file")]
Target = Annotated[
    str | None,
    _option(
        None, "COLUMN", "target column, by name or position (default: the last); not for libsvm"
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="csv: whether line 1 holds names (default: detected)"
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weights",
        "--weight-column",
        metavar="COLUMN",
        help="column of row weights; not for libsvm",
    ),
]
FormatOption = Annotated[
    Format | None,
    _option(
        None,
        "NAME",
        "file format: libsvm, csv, jsonl, parquet, arrow, npy, npz (default: detected from the "
        "suffix or line 1)",
    ),
]
Features = Annotated[
    int | None,
    _option(None, "N", "libsvm: number of features, if the file holds fewer", min=1),
]
Passes = Annotated[int | None, _option(None, "N", "passes over the data (default: chosen)", min=1)]
Seed = Annotated[int, _option(None, "N", "the same seed gives the same model", min=0)]
CheckpointFile = Annotated[
    str | None,
    _option(_LARGE, "FILE", "save the state of the run to this file, at intervals and on Ctrl-C"),
]
Every = Annotated[int, _option(_LARGE, "ROWS", "rows between two checkpoints", min=1)]
Resume = Annotated[bool, _option(_LARGE, None, "continue from the checkpoint", "--resume")]
OnBadRow = Annotated[BadRow, typer.Option(help="skip: skip malformed rows and count them")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]


class TrainOptions(NamedTuple):
    """Train a model on DATA and write it to MODEL: nothing to tune.

    Files above 256 MiB and standard input above 32 MiB are learned while they are read, and so are
    data with --checkpoint, --hash or --window. The estimator is then pistol, or --estimator ridge,
    reflectron or (for a file) separator.
    """

    data: DataFile
    model: ModelFile
    target: Target = None
    header: Header = None
    weight_column: Weight = None
    task: Annotated[
        Task,
        typer.Option(
            metavar="TASK",
            help="classification, regression or auto; auto: classification if the target is text, "
            "has at most 2 distinct whole numbers, or at most 20 that occur twice or more on "
            "average",
        ),
    ] = Task.auto
    estimator: Annotated[
        Estimator,
        typer.Option(
            metavar="NAME",
            help="auto: compares linear and kernel models on held-out rows; pistol: linear; "
            "kernel: nonlinear; glm: generalized linear, sparse; reflectron: the same for a link "
            "without a distribution; ridge: least squares with a chosen penalty; separator: a "
            "hyperplane with a certified margin",
        ),
    ] = Estimator.auto
    link: Annotated[
        str | None,
        _option(
            _GLM,
            None,
            "mean as a function of the linear score: identity, logit, probit, ..., learned, auto "
            "(default: the family's)",
        ),
    ] = None
    family: Annotated[
        str | None,
        _option(
            _GLM,
            None,
            "distribution of the target: poisson, gamma, inverse_gaussian, tweedie, "
            "negative_binomial, binomial, huber, quantile, ordinal, ..., auto "
            "(default: by the target)",
        ),
    ] = None
    categories: Annotated[
        str | None,
        _option(
            _GLM,
            "LOW,...,HIGH",
            "with --family ordinal: grades that are text, from lowest to highest",
        ),
    ] = None
    exposure: Annotated[
        str | None,
        _option(
            _GLM,
            "COLUMN",
            "column of the time, area or number of units that each count or amount belongs "
            "to, by name or position; predict and eval read it, too",
        ),
    ] = None
    offset: Annotated[
        str | None,
        _option(
            _GLM,
            "COLUMN",
            "column that is added to the linear score; predict and eval read it, too",
        ),
    ] = None
    potential: Annotated[
        str | None,
        _option(
            _GLM,
            None,
            "geometry of the regularization: euclidean, hypentropy, p_norm, ... (default: chosen)",
        ),
    ] = None
    categorical: Annotated[
        list[str] | None,
        _option(
            _AUTO,
            "COLUMN",
            "column of numbers that are categories, by name or position; may be repeated",
        ),
    ] = None
    merge_levels: Annotated[
        bool,
        _option(
            _AUTO,
            None,
            "make one level of those that are nearly equal, such as Berlin, berlin and Berlni",
            "--merge-levels",
        ),
    ] = False
    compress: Annotated[
        int | None,
        _option(
            _AUTO,
            "LANDMARKS",
            "at most this many landmarks in a kernel model, for faster predictions; the "
            "cost in accuracy is printed",
            min=1,
        ),
    ] = None
    budget: Annotated[
        str | None,
        _option(_AUTO, "TIME", "time limit for comparing and fitting models, such as 30s or 5min"),
    ] = None
    max_memory: Annotated[
        str | None,
        _option(_AUTO, "SIZE", "memory limit, not counting the data, such as 2GB"),
    ] = None
    scoring: Annotated[
        str | None,
        _option(
            _AUTO,
            "SCORER",
            "scikit-learn scorer that decides between the stack and a single model: "
            "roc_auc, balanced_accuracy, neg_mean_absolute_error, ...",
        ),
    ] = None
    groups: Annotated[
        str | None,
        _option(
            _AUTO,
            "COLUMN",
            "column of groups: all rows of a group are held out together; the column is not "
            "a feature",
        ),
    ] = None
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="column that is not a feature (see predict)"),
    ] = None
    n_features: Features = None
    passes: Passes = None
    seed: Seed = 0
    checkpoint: CheckpointFile = None
    every: Every = 1_000_000
    resume: Resume = False
    hashed: Annotated[
        int | None,
        _option(
            _LARGE,
            "COLUMNS",
            "csv, parquet, arrow: accept text; hash names and values into this many columns",
            "--hash",
            min=1,
        ),
    ] = None
    window: Annotated[
        int,
        _option(_LARGE, "ROWS", "shuffle within windows of this size", min=0),
    ] = 0
    on_bad_row: OnBadRow = BadRow.error
    format: FormatOption = None
    json: Json = False


class PredictOptions(NamedTuple):
    """Print one prediction per row of DATA.

    Columns are matched by name if MODEL and DATA have names, in any order; extra columns are
    ignored. Features of a libsvm file that MODEL does not know are ignored, too.
    """

    model: ModelFile
    data: DataFile
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="write to this file instead of stdout: .csv (with a header), .jsonl, .parquet, "
            "or else the text of stdout",
        ),
    ] = None
    id: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="copy this column of DATA in front of each prediction"
        ),
    ] = None
    proba: Annotated[
        bool, typer.Option("--proba", help="class probabilities, as csv; line 1 names the classes")
    ] = False
    coverage: Annotated[
        float | None,
        typer.Option(
            help="also what contains this share of targets, such as .9: csv with both ends of "
            "intervals, or for classes with 1 for each class in the set",
        ),
    ] = None
    header: Header = None
    format: FormatOption = None


class EvalOptions(NamedTuple):
    """Compare predictions for DATA with its targets.

    Prints error, log-loss and AUC (two classes), or mse, mae and r2; the number of rows n; and a
    95 % interval for the error or mse on new rows.
    """

    model: ModelFile
    data: DataFile
    target: Target = None
    header: Header = None
    weight_column: Weight = None
    format: FormatOption = None
    json: Json = False
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="also write the page of `report` to this file"),
    ] = None


class ReportOptions(NamedTuple):
    """Write an HTML page about MODEL: candidates, choice, importance, and scores on DATA.

    The page is one file and needs no network.
    """

    model: ModelFile
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="rows with targets to evaluate the model on"),
    ] = None
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="the page (default: MODEL.html)")
    ] = None
    target: Target = None
    header: Header = None
    weight_column: Weight = None
    format: FormatOption = None


class InspectOptions(NamedTuple):
    """Show the contents of MODEL: estimator, data, chosen candidates, versions, largest weights."""

    model: ModelFile
    json: Json = False


class DemoOptions(NamedTuple):
    """Train on a small table with text and empty cells, and write a report about the model."""

    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", help="the folder of the files that it writes")
    ] = "tunefree-demo"


class PathOptions(NamedTuple):
    """Print the regularization path of ridge regression for DATA: each penalty and its error.

    The error is the mean squared error on held-out rows (leave-one-out for the exact solver).
    """

    data: DataFile
    alphas: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="penalties, as in Ridge (default: 50 of them)"),
    ] = None
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="write all coefficients there, as csv"),
    ] = None
    plot: Annotated[
        str | None, typer.Option(metavar="PNG", help="draw the path there (needs matplotlib)")
    ] = None
    solver: Annotated[
        Solver, typer.Option(help="auto: exact where that is cheaper, else averaged SGD")
    ] = Solver.auto
    target: Target = None
    header: Header = None
    weight_column: Weight = None
    n_features: Features = None
    passes: Passes = None
    seed: Seed = 0
    format: FormatOption = None
    json: Json = False


class StreamOptions(NamedTuple):
    """Predict each row of DATA, then learn it: for data that arrive in order and may drift.

    Prints the error so far each time the number of rows has doubled. Text and missing values are
    accepted; a row without a target is predicted, but not learned.
    """

    data: DataFile
    target: Target = None
    header: Header = None
    task: Annotated[
        Task,
        typer.Option(
            metavar="TASK", help="classification, regression, or auto: from the first rows"
        ),
    ] = Task.auto
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="write predictions to this file, with intervals or sets"
        ),
    ] = None
    model: Annotated[
        str | None, typer.Option(metavar="FILE", help="save the final model to this file")
    ] = None
    coverage: Annotated[
        float, typer.Option(help="share of targets that intervals or sets contain, .5 to .99")
    ] = 0.9
    delay: Annotated[
        int, typer.Option(min=0, metavar="ROWS", help="labels arrive this many rows late")
    ] = 0
    checkpoint: CheckpointFile = None
    every: Every = 100_000
    resume: Resume = False
    on_bad_row: OnBadRow = BadRow.error
    format: Annotated[
        RowFormat | None, typer.Option(metavar="NAME", help="file format: libsvm, csv, jsonl")
    ] = None
    json: Json = False
