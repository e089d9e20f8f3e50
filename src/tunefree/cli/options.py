"""What each command takes: a class whose docstring and fields make the help screen."""

from typing import Annotated, Any, NamedTuple

import typer

from tunefree.cli.console import number_from, one_of

# Panels of the help screens.
_COLUMNS, _FORMAT, _MODEL = "Columns", "File format", "Model"
_AUTO, _GLM = "Options of --estimator auto", "Options of --estimator glm and reflectron"
_LARGE = "Large files and interrupted runs"
_RESULTS = "Results"

TASKS = ("auto", "classification", "regression")
ESTIMATORS = ("auto", "trees", "pistol", "kernel", "glm", "reflectron", "ridge", "separator")
ROW_FORMATS = (
    ("libsvm", "csv", "json", "jsonl", "parquet", "arrow", "orc")
    + ("excel", "arff", "stata", "spss", "sas")
)  # fmt: skip
FORMATS = (*ROW_FORMATS, "npy", "npz")
OUTPUT_FORMATS = ("csv", "jsonl")
BAD_ROWS = ("error", "skip")
CVS = ("time",)
BAD_CELLS = ("missing", "error")


def _option(panel, metavar, help, *flags, **more) -> Any:
    """An option, in a panel of the help screen."""
    return typer.Option(*flags, metavar=metavar, help=help, rich_help_panel=panel, **more)


def _choice(panel, names, help, *flags, metavar="NAME") -> Any:
    """An option whose value is one of some names."""

    def completed(incomplete: str):
        return [name for name in names if name.startswith(incomplete)]

    parser = one_of(names)
    return _option(panel, metavar, help, *flags, parser=parser, autocompletion=completed)


def _number(panel, metavar, help, *flags, least=None) -> Any:
    """An option whose value is a whole number, at least `least`, or else any number."""
    return _option(panel, metavar, help, *flags, parser=number_from(least))


DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="text with any delimiter, libsvm, .json, .jsonl, .parquet, .arrow, .orc, "
        ".xlsx, .ods, .arff, .dta, .sav, .sas7bdat, .npy or .npz; also as .gz, .zst, .bz2 or "
        ".zip; - for standard input",
    ),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="the model file")]
Target = Annotated[
    str | None,
    _option(
        _COLUMNS, "COLUMN", "target column, by name or position (default: the last); not for libsvm"
    ),
]
Drop = Annotated[
    list[str] | None,
    _option(_COLUMNS, "COLUMN,...", "columns that are not read, by name; may be repeated"),
]
Weight = Annotated[
    str | None,
    _option(
        _COLUMNS, "COLUMN", "column of row weights; not for libsvm", "--weights", "--weight-column"
    ),
]
Header = Annotated[
    bool | None,
    _option(
        _FORMAT, None, "csv: whether line 1 holds names (default: detected)", "--header/--no-header"
    ),
]
Delimiter = Annotated[
    str | None,
    _option(
        _FORMAT,
        "CHARACTER",
        "csv: what separates cells: a character, tab or blank (default: detected)",
    ),
]
Sheet = Annotated[
    str | None,
    _option(_FORMAT, "NAME", "workbooks: the sheet, by name or number (default: the first table)"),
]
FormatOption = Annotated[
    str | None,
    _choice(
        _FORMAT, FORMATS, f"{', '.join(FORMATS)} (default: detected from the suffix or line 1)"
    ),
]
Features = Annotated[
    int | None,
    _number(_FORMAT, "N", "libsvm: number of features, if the file holds fewer", least=1),
]
OnBadRow = Annotated[
    str, _choice(_FORMAT, BAD_ROWS, "error; or skip malformed rows and count them")
]
OnBadCell = Annotated[
    str | None,
    _choice(
        _COLUMNS,
        BAD_CELLS,
        "a cell that is not of its column's kind is missing, and counted; or an error",
    ),
]
SchemaFile = Annotated[
    str | None,
    _option(
        _COLUMNS,
        "FILE",
        "what is known of columns, as JSON: their kinds and how cells are written; see inspect "
        "--schema",
        "--schema",
    ),
]
TaskOption = Annotated[
    str,
    _choice(
        _MODEL,
        TASKS,
        "classification, regression or auto; auto: classification if the target is text, "
        "has at most 2 distinct whole numbers, or at most 20 that occur twice or more on "
        "average",
        metavar="TASK",
    ),
]
Passes = Annotated[
    int | None, _number(_MODEL, "N", "passes over the data (default: chosen)", least=1)
]
Seed = Annotated[int, _number(_MODEL, "N", "the same seed gives the same model", least=0)]
CheckpointFile = Annotated[
    str | None,
    _option(_LARGE, "FILE", "save the state of the run to this file, at intervals and on Ctrl-C"),
]
Every = Annotated[int, _number(_LARGE, "ROWS", "rows between two checkpoints", least=1)]
Resume = Annotated[bool, _option(_LARGE, None, "continue from the checkpoint", "--resume")]
Json = Annotated[bool, _option(_RESULTS, None, "print one JSON object to stdout", "--json")]


class LookOptions(NamedTuple):
    """Show what is read from DATA and found in it, before any fit.

    That is its dialect, each column's kind with three cells and its missing values, rows that would
    be skipped, the target and the task, columns that leak the target or name the rows, nearly equal
    levels, the order of rows, and the time and memory of a fit.
    """

    data: DataFile
    target: Target = None
    drop: Drop = None
    weight_column: Weight = None
    schema: SchemaFile = None
    format: FormatOption = None
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    n_features: Features = None
    on_bad_row: OnBadRow = "skip"
    json: Json = False


class TrainOptions(NamedTuple):
    """Train a model on DATA and write it to MODEL.

    Rows without a target are skipped and counted; more than a fifth of such rows is an error.

    Files above 256 MiB and standard input above 32 MiB are learned while they are read, and so are
    data with --checkpoint, --hash or --window. The estimator is then pistol (the default), ridge,
    glm, reflectron or, for a file, separator.
    """

    data: DataFile
    model: ModelFile
    target: Target = None
    drop: Drop = None
    id: Annotated[
        list[str] | None,
        _option(
            _COLUMNS,
            "COLUMN",
            "column that names the rows, not a feature (see predict); may be repeated",
        ),
    ] = None
    weight_column: Weight = None
    exposure: Annotated[
        str | None,
        _option(
            _COLUMNS,
            "COLUMN",
            "column of the time, area or number of units that each count or amount belongs "
            "to, by name or position; predict and eval read it, too",
        ),
    ] = None
    offset: Annotated[
        str | None,
        _option(
            _COLUMNS,
            "COLUMN",
            "column that is added to the linear score; predict and eval read it, too",
        ),
    ] = None
    groups: Annotated[
        str | None,
        _option(
            _COLUMNS,
            "COLUMN",
            "column of groups: all rows of a group are held out together; the column is not "
            "a feature",
        ),
    ] = None
    categorical: Annotated[
        list[str] | None,
        _option(
            _COLUMNS,
            "COLUMN",
            "column of numbers that are categories, by name or position; may be repeated",
        ),
    ] = None
    task: TaskOption = "auto"
    estimator: Annotated[
        str,
        _choice(
            _MODEL,
            ESTIMATORS,
            "auto: compares linear models, kernels and trees on held-out rows; trees: boosted "
            "trees; pistol: linear; kernel: nonlinear; glm: generalized linear, sparse; "
            "reflectron: the same for a link without a distribution; ridge: least squares with a "
            "chosen penalty; separator: a hyperplane with a certified margin",
        ),
    ] = "auto"
    loss: Annotated[
        str | None,
        _option(
            _MODEL,
            "NAME",
            "what is minimized: squared_error, absolute_error, quantile, huber, log_loss, ... "
            "(default: the estimator's)",
        ),
    ] = None
    quantile: Annotated[
        float | None,
        _number(_MODEL, "SHARE", "the quantile to predict, such as .9; implies --loss quantile"),
    ] = None
    family: Annotated[
        str | None,
        _option(
            _MODEL,
            "NAME",
            "distribution of the target: poisson, gamma, inverse_gaussian, tweedie, "
            "negative_binomial, binomial, huber, quantile, ordinal, ... (default: by the target)",
        ),
    ] = None
    passes: Passes = None
    seed: Seed = 0
    schema: SchemaFile = None
    on_bad_cell: OnBadCell = None
    merge_levels: Annotated[
        bool,
        _option(
            _AUTO,
            None,
            "make one level of those that are nearly equal, such as Berlin, berlin and Berlni",
            "--merge-levels",
        ),
    ] = False
    note: Annotated[
        list[str] | None,
        _option(
            _RESULTS,
            "KEY=VALUE",
            "a note in MODEL that inspect prints, such as date=2026-11-28; may be repeated",
        ),
    ] = None
    budget: Annotated[
        str | None,
        _option(_AUTO, "TIME", "time limit for comparing and fitting models, such as 30s or 5min"),
    ] = None
    max_memory: Annotated[
        str | None,
        _option(_AUTO, "SIZE", "memory limit, not counting the data, such as 2GB, 512MiB or 1e9"),
    ] = None
    compress: Annotated[
        int | None,
        _number(
            _AUTO,
            "LANDMARKS",
            "at most this many landmarks in a kernel model, for faster predictions; the "
            "cost in accuracy is printed",
            least=1,
        ),
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
    cv: Annotated[
        str | None,
        _choice(
            _AUTO,
            CVS,
            "time: hold out later rows, by the first column of dates, or else by their order",
        ),
    ] = None
    link: Annotated[
        str | None,
        _option(
            _GLM,
            "NAME",
            "mean as a function of the linear score: identity, logit, probit, ..., learned, auto "
            "(default: the family's)",
        ),
    ] = None
    potential: Annotated[
        str | None,
        _option(
            _GLM,
            "NAME",
            "geometry of the regularization: euclidean, hypentropy, p_norm, ... (default: chosen); "
            "none: maximum likelihood",
        ),
    ] = None
    formula: Annotated[
        str | None,
        _option(
            _GLM,
            "TEXT",
            "target and columns as in R, such as 'claims ~ age + C(region)', with bs, cr, poly, "
            "a:b, a*b and offset(...)",
        ),
    ] = None
    reference: Annotated[
        list[str] | None,
        _option(
            _GLM,
            "COLUMN=LEVEL",
            "reference level of a column in the table of coefficients (default: that of most "
            "rows); may be repeated",
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
    format: FormatOption = None
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    n_features: Features = None
    on_bad_row: OnBadRow = "error"
    checkpoint: CheckpointFile = None
    every: Every = 1_000_000
    resume: Resume = False
    hashed: Annotated[
        int | None,
        _number(
            _LARGE,
            "COLUMNS",
            "csv, parquet, arrow: accept text; hash names and values into this many columns",
            "--hash",
            least=1,
        ),
    ] = None
    window: Annotated[
        int, _number(_LARGE, "ROWS", "shuffle within windows of this size", least=0)
    ] = 0
    json: Json = False


class PredictOptions(NamedTuple):
    """Print one prediction per row of DATA, whose target, if there is one, is not read.

    Columns are matched by name if MODEL and DATA have names, in any order; extra columns are
    ignored. Features of a libsvm file that MODEL does not know are ignored, too.

    Rows of a pipe are predicted as they arrive, and each prediction is written at once.
    """

    model: ModelFile
    data: DataFile
    output: Annotated[
        str | None,
        _option(
            _RESULTS,
            "FILE",
            "write to this file or pipe instead of stdout (-); .csv, .jsonl and .parquet begin "
            "with the --id columns of the training, and have the probabilities of classes",
            "--output",
            "-o",
        ),
    ] = None
    id: Annotated[
        list[str] | None,
        _option(
            _RESULTS,
            "COLUMN",
            "copy this column of DATA in front of each prediction; may be repeated",
            "--id",
        ),
    ] = None
    output_format: Annotated[
        str | None,
        _choice(
            _RESULTS,
            OUTPUT_FORMATS,
            "how predictions are written, wherever they go: csv or jsonl (default: by the suffix "
            "of --output)",
        ),
    ] = None
    proba: Annotated[
        bool,
        _option(_RESULTS, None, "class probabilities, as csv; line 1 names the classes", "--proba"),
    ] = False
    explain: Annotated[
        bool,
        _option(
            _RESULTS,
            None,
            "also what each column adds to the score, as csv: the score is base_value plus the "
            "contributions",
            "--explain",
        ),
    ] = False
    coverage: Annotated[
        float | None,
        _number(
            _RESULTS,
            "SHARE",
            "also intervals, or sets of classes, that contain this share of targets, such as .9; "
            "csv, with 1 for a class in the set",
        ),
    ] = None
    check: Annotated[
        bool,
        _option(
            _RESULTS,
            None,
            "also compare the rows with those of the training, on stderr; exit code 5 if they "
            "drift (see drift)",
            "--check",
        ),
    ] = False
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    on_bad_row: OnBadRow = "error"
    on_bad_cell: OnBadCell = None
    format: FormatOption = None


class EvalOptions(NamedTuple):
    """Compare predictions for DATA with its targets; rows without one are skipped and counted.

    Prints error, log-loss and AUC (two classes), or mse, mae and r2; the number of rows n; and a
    95 % interval for the error or mse on new rows.
    """

    model: ModelFile
    data: DataFile
    target: Target = None
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    weight_column: Weight = None
    on_bad_row: OnBadRow = "error"
    on_bad_cell: OnBadCell = None
    format: FormatOption = None
    json: Json = False
    html: Annotated[
        str | None, _option(_RESULTS, "FILE", "also write the page of `report` to this file")
    ] = None


class DriftOptions(NamedTuple):
    """Compare the distribution of DATA with that of the training rows of MODEL, without labels.

    Of each column and of the predictions: the population stability index, the p-value of a test
    (Kolmogorov-Smirnov, chi-squared), and the share of rows outside the ranges of the training.
    A column drifts if its index is above the threshold and its p-value below .001 over the number
    of columns; the exit code is then 5.
    """

    model: ModelFile
    data: DataFile
    reference: Annotated[
        str | None,
        _option(
            _RESULTS,
            "FILE",
            "rows to compare with, in place of those of the training; predictions are tested only "
            "with this",
            "--reference",
        ),
    ] = None
    threshold: Annotated[
        float, _number(_RESULTS, "INDEX", "the stability index from which a column drifts")
    ] = 0.25
    page: Annotated[
        str | None,
        _option(_RESULTS, "FILE", "also write an HTML page, which is one file", "--page"),
    ] = None
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    on_bad_row: OnBadRow = "error"
    on_bad_cell: OnBadCell = None
    format: FormatOption = None
    json: Json = False


class CompareOptions(NamedTuple):
    """Compare two models on the rows of DATA: which is better, and have the predictions moved.

    The interval is that of the mean difference of the losses, row by row. Log-loss decides, or
    error without probabilities, or mse.
    """

    old: Annotated[str, typer.Argument(metavar="OLD", help="a model file")]
    new: Annotated[str, typer.Argument(metavar="NEW", help="another model file")]
    data: DataFile
    target: Target = None
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    weight_column: Weight = None
    on_bad_row: OnBadRow = "error"
    on_bad_cell: OnBadCell = None
    format: FormatOption = None
    json: Json = False


class ReportOptions(NamedTuple):
    """Write an HTML page about MODEL: candidates, choice, importance, and scores on DATA.

    The page is one file and needs no network.
    """

    model: ModelFile
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="rows with targets to evaluate the model on"),
    ] = None
    output: Annotated[
        str | None,
        _option(_RESULTS, "FILE", "the page (default: MODEL.html)", "--output", "-o"),
    ] = None
    target: Target = None
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    weight_column: Weight = None
    on_bad_row: OnBadRow = "error"
    on_bad_cell: OnBadCell = None
    format: FormatOption = None


class ExportOptions(NamedTuple):
    """Write MODEL to FILE for services: ONNX if it ends with .onnx, or else for tunefree.serve.

    python -m tunefree.serve FILE ROWS predicts with NumPy alone, and reads cells as predict does.
    """

    model: ModelFile
    output: Annotated[str, typer.Argument(metavar="FILE", help="the file to write")]


class InspectOptions(NamedTuple):
    """Show the contents of MODEL: estimator, data, columns, candidates, versions, weights.

    Of a GLM the table of coefficients, too, with standard errors and tests.
    """

    model: ModelFile
    json: Json = False
    schema: Annotated[
        bool,
        _option(
            _RESULTS,
            None,
            "print what the columns are, as JSON that `train --schema` takes",
            "--schema",
        ),
    ] = False


class DemoOptions(NamedTuple):
    """Compare with scikit-learn, then train on a mixed table and write a report."""

    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="the folder of the files that it writes")
    ] = "tunefree-demo"


class StreamOptions(NamedTuple):
    """Predict each row of DATA, then learn it: for data that arrive in order and may drift.

    Prints the error of all rows, and of the latest ones (since the line before), each time the
    number of rows has doubled, and when drift is noticed.
    Text and missing values are accepted; a row without a target is predicted, but not learned.
    """

    data: DataFile
    target: Target = None
    drop: Drop = None
    id: Annotated[
        list[str] | None,
        _option(
            _COLUMNS,
            "COLUMN",
            "column that names the rows: not a feature, but copied in front of "
            "each prediction; may be repeated",
        ),
    ] = None
    task: Annotated[
        str,
        _choice(
            _MODEL,
            TASKS,
            "classification, regression, or auto: from the first rows",
            metavar="TASK",
        ),
    ] = "auto"
    coverage: Annotated[
        float,
        _number(_MODEL, "SHARE", "share of targets that intervals or sets contain, .5 to .99"),
    ] = 0.9
    delay: Annotated[int, _number(_MODEL, "ROWS", "labels arrive this many rows late", least=0)] = 0
    format: Annotated[
        str | None, _choice(_FORMAT, ROW_FORMATS, f"{', '.join(ROW_FORMATS)} (default: detected)")
    ] = None
    header: Header = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    on_bad_row: OnBadRow = "error"
    checkpoint: CheckpointFile = None
    every: Every = 100_000
    resume: Resume = False
    restart: Annotated[
        bool,
        _option(
            _LARGE, None, "begin again: overwrite the checkpoint and the predictions", "--restart"
        ),
    ] = False
    output: Annotated[
        str | None,
        _option(
            _RESULTS,
            "FILE",
            "write predictions to this file or pipe, with intervals or sets (default: stdout for "
            "rows of a pipe; nowhere for a file, or with --json)",
            "--output",
            "-o",
        ),
    ] = None
    model: Annotated[str | None, _option(_RESULTS, "FILE", "save the final model to this file")] = (
        None
    )
    json: Json = False
