#!/usr/bin/env bash
# Checks of what a new user does first: a fresh environment, a home and an install folder that
# nobody can write to, everyday tables, every command. Needs Python 3.11 or later, pip and gcc.
#
#   docs/first_hour.sh [FOLDER]
#
# Everything is written to FOLDER (default: a temporary one, removed at the end). Prints one line per
# check, and exits with 1 if a check failed.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tables" && cd "$work/tables" || exit 1
failed=0 count=0

# check NAME PATTERN COMMAND...: the command must exit with 0 and print what the pattern matches. If
# the name begins with "not", it must exit with another code.
check() {
  local name=$1 pattern=$2 out code begin=$SECONDS
  shift 2
  count=$((count + 1))
  out=$("$@" 2>&1 </dev/null)
  code=$?
  case $name in not*) [ $code -ne 0 ] && code=0 || code=1 ;; esac
  if [ $code -eq 0 ] && grep -Eqz -- "$pattern" <<<"$out"; then
    printf 'ok    %-62s %4d s\n' "$name" $((SECONDS - begin))
  else
    printf 'FAIL  %-62s %4d s\n' "$name" $((SECONDS - begin))
    printf '%s\n' "wanted: $pattern" "$out" | tail -n 15 | sed 's/^/      | /'
    failed=$((failed + 1))
  fi
}

check "a fresh environment" "" "${PYTHON:-python3}" -m venv "$work/venv"
export PATH="$work/venv/bin:$PATH"
check "pip install ." "" pip install --quiet --disable-pip-version-check "$here"
check "pip install pandas polars (for the tables)" "" \
  pip install --quiet --disable-pip-version-check pandas polars
unset PYTHONPATH NUMBA_CACHE_DIR

# Files in place of the cache folders stop root from writing, too.
site=$(python -c 'import os, importlib.util as u; print(os.path.dirname(u.find_spec("tunefree").origin))')
find "$site" -name __pycache__ -prune -exec rm -rf {} +
find "$site" -type d -exec touch {}/__pycache__ \;
export HOME=/proc/none PYTHONPYCACHEPREFIX="$work/pyc"

cat > tables.py <<'PY'
"""Everyday tables as files and frames: 450 training rows and 150 test rows."""

import sys
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

rng, n = np.random.default_rng(0), 600
days = [datetime(2022, 1, 1) + timedelta(i) for i in range(n)]
weekend = 10.0 * np.array([d.weekday() >= 5 for d in days]) + rng.normal(size=n)
words = "good bad fast slow quiet loud cheap costly heavy light old new".split()
texts = [" ".join(rng.choice(words, 6)) + f", review number {i}" for i in range(n)]
mood = np.array([("good" in t) - 1.0 * ("bad" in t) for t in texts]) + 0.1 * rng.normal(size=n)
amount, share = np.exp(rng.normal(8, 1, n)).round(), rng.integers(0, 100, n)
money, x = np.log(amount) + share / 10 + 0.05 * rng.normal(size=n), rng.normal(size=n)


def dated(form):
    return {"day": [d.strftime(form) for d in days], "x": x, "y": weekend}


TABLES = {
    "iso dates": dated("%Y-%m-%d"),
    "dates 31.01.2024": dated("%d.%m.%Y"),
    "dates 01/31/2024": dated("%m/%d/%Y"),
    "dates 31/01/2024": dated("%d/%m/%Y"),
    "dates with zones": dated("%Y-%m-%dT%H:%M:%S+02:00"),
    "sentences": {"review": texts, "x": x, "y": mood},
    "numbers 1,234 and 7%": {"a": [f"{v:,.0f}" for v in amount], "b": [f"{v}%" for v in share], "y": money},
    "numbers $5,000": {"a": [f"${v:,.0f}" for v in amount], "b": share, "y": money},
    "missing numbers": {"a": [f"{v:.0f}" if i % 9 else "n/a" for i, v in enumerate(amount)],
                        "b": share, "y": share + 0.0},
}  # fmt: skip
ZONED = pd.DataFrame({"day": pd.to_datetime(days).tz_localize("Europe/Rome"), "x": x, "y": weekend})


def frames(name):
    table = pd.DataFrame(TABLES[name]) if name in TABLES else ZONED
    return {"pandas": table, "polars": pl.from_pandas(table), "pyarrow": pa.Table.from_pandas(table)}


def cut(frame, start, stop):
    if isinstance(frame, pd.DataFrame):
        return frame.iloc[start:stop]
    return frame.slice(start, stop - start)


def score(name, held):
    from tunefree import TuneFreeRegressor

    frame = frames(name)[held]
    features = [c for c in TABLES.get(name, ZONED) if c != "y"]
    y, take = np.asarray(frame["y"]), (lambda f: f.select(features)) if held != "pandas" else (lambda f: f[features])
    model = TuneFreeRegressor(random_state=0).fit(take(cut(frame, 0, 450)), y[:450])
    return model.score(take(cut(frame, 450, 600)), y[450:])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["names"]:
            print("\n".join(TABLES))
        case ["write"]:
            for name in TABLES:
                frame = pd.DataFrame(TABLES[name])
                for part, rows in (("train", frame[:450]), ("test", frame[450:])):
                    rows.to_csv(f"{name}.{part}.csv".replace("/", "-"), index=False)
                    rows.to_json(f"{name}.{part}.jsonl".replace("/", "-"), orient="records", lines=True)
            for part, rows in (("train", ZONED[:450]), ("test", ZONED[450:])):
                rows.to_parquet(f"zones.{part}.parquet")
                kept = rows.assign(day=rows["day"].dt.strftime("%d.%m.%Y"), x=rows["x"].round(3))
                text = kept.to_csv(index=False, sep=";", decimal=",")
                with open(f"excel.{part}.csv", "w") as file:
                    file.write("sep=;\n" + text)
            kinds = pd.DataFrame({"id": [f"k{i}" for i in range(n)], "place": rng.integers(0, 20, n),
                                  "x": x, "z": rng.normal(size=n)})  # fmt: skip
            kinds["kind"] = np.where(kinds.x + kinds.z > 0, "up", "down")
            kinds[:450].to_csv("kinds.train.csv", index=False)
            kinds[450:].to_csv("kinds.test.csv", index=False)
            pd.DataFrame({"a": x, "b": rng.normal(size=n), "y": 2 * x + 0.1 * rng.normal(size=n)}).to_csv(
                "numbers.csv", index=False
            )
        case ["score", name]:
            found = {held: round(score(name, held), 3) for held in frames(name)}
            print("R2", found)
            sys.exit(min(found.values()) < 0.85)
PY
check "tables are written" "" python tables.py write

fit='from tunefree import TuneFreeClassifier as C; import numpy as np
X = np.random.default_rng(0).normal(size=(200, 2)); y = X[:, 0] > 0
print("accuracy", C(random_state=0).fit(X, y).score(X, y))'
check "home and install folder unwritable" "accuracy (0.9|1.0)" python -W error::RuntimeWarning -c "$fit"
check "no place at all for a cache" "accuracy (0.9|1.0)" env TMPDIR=/proc/none \
  python -W error::RuntimeWarning -c "$fit"

explains='from sklearn.datasets import load_diabetes, load_iris
from tunefree import TuneFreeClassifier as C, TuneFreeRegressor as R
X, y = load_iris(return_X_y=True); C(random_state=0).fit(X, y)  # sorted by class
X, y = load_diabetes(return_X_y=True, as_frame=True)
m = R(random_state=0).fit(X, y); e = m.explain(X[:5])
assert abs(e.base_value + e.values.sum(axis=1) - e.score).max() < 1e-8
print(m.group_importances_[0]["columns"], [d.column for d in m.column_drift(X.assign(bmi=1.0)) if d.differs])'
check "explanations, correlated columns, drift; no warning of iris" "s3.*s4.*bmi" \
  python -W error::UserWarning -c "$explains"

learns() { # TRAIN TEST: the R2 or accuracy on the test file
  tunefree train "$1" model && tunefree eval model "$2" --json > scores.json && python - <<'PY'
import json, sys
found = json.load(open("scores.json"))
value = found["r2"] if "r2" in found else 1 - found["error"]
print("R2 or accuracy", round(value, 3))
sys.exit(value < 0.85)
PY
}
python tables.py names > names.txt
while read -r name; do
  file=${name//\//-}
  check "$name: csv on the command line" "R2" learns "$file.train.csv" "$file.test.csv"
  check "$name: pandas, polars, pyarrow" "R2" python tables.py score "$name"
done < names.txt
check "JSON lines" "R2" learns "numbers \$5,000.train.jsonl" "numbers \$5,000.test.jsonl"
check "dates with a zone by their type: pandas, polars, pyarrow" "R2" python tables.py score zones
check "dates with a zone by their type: parquet" "R2" learns zones.train.parquet zones.test.parquet
check "sep=; and decimal commas" "R2" learns excel.train.csv excel.test.csv
check "classes" "R2" learns kinds.train.csv kinds.test.csv

check "a column without information is named" "High-cardinality text columns dropped: 'id'" \
  tunefree train kinds.train.csv m0
check "train prints target and task, then each candidate" \
  "target: kind.*task: classification.*kernel: held-out loss [0-9.]+.*Gaussian kernel  " \
  tunefree train kinds.train.csv m1 --target kind --id id --groups place --scoring roc_auc
check "equal seeds" "" tunefree train kinds.train.csv m2 --target kind --id id --groups place --scoring roc_auc
check "give equal files" "" cmp m1 m2
check "predict" "^(up|down)" tunefree predict m1 kinds.test.csv
for suffix in csv jsonl parquet; do
  check "predict into $suffix, with ids" "wrote 150" tunefree predict m1 kinds.test.csv --id id -o "predictions.$suffix"
done
check "csv has ids and probabilities" "^id,prediction,down,up" head -n 1 predictions.csv
check "ids of training come by themselves" "^id,prediction,down,up" bash -c \
  "tunefree predict m1 kinds.test.csv -o own.csv 2> own.txt && head -n 1 own.csv"
check "several ids" "^id,kind,prediction" tunefree predict m1 kinds.test.csv --id id --id kind
check "predict --explain" "^prediction,score,base_value,contribution_x,contribution_z" \
  tunefree predict m1 kinds.test.csv --explain
check "predict --proba" "^down,up" tunefree predict m1 kinds.test.csv --proba
check "predict --coverage of classes" "^prediction,down,up" tunefree predict m1 kinds.test.csv --coverage .9
check "predict --coverage of numbers" "^prediction,low,high" bash -c \
  "tunefree train numbers.csv m3 2> train.txt && tunefree predict m3 numbers.csv --coverage .9"
check "eval" "error.*auc" tunefree eval m1 kinds.test.csv
check "report" "" tunefree report m1 kinds.test.csv -o page.html
check "the page explains rows" "mean absolute value" cat page.html
check "inspect" "TuneFreeClassifier" tunefree inspect m1
check "look" "read as" tunefree look kinds.train.csv
check "ridge of decimal commas" "" tunefree train excel.train.csv m4 --estimator ridge --drop day
check "stream" "rows.*drift at row" tunefree stream numbers.csv -o live.csv --checkpoint live.state
check "not again without --restart or --resume" "--restart to overwrite it or --resume" \
  tunefree stream numbers.csv -o live.csv --checkpoint live.state
check "but with --restart" "rows" tunefree stream numbers.csv -o live.csv --checkpoint live.state --restart
check "stream with ids" "^id,prediction,probability,set" bash -c \
  "tunefree stream kinds.train.csv --id id -o kinds.live.csv 2> stream.txt && head -n 1 kinds.live.csv"
check "dropped columns and ids" "2 features" \
  tunefree train kinds.train.csv m6 --drop place --id id --max-memory 2GiB
check "a quantile" "task: regression" tunefree train numbers.csv m7 --estimator trees --quantile .9
python - <<'PY'
import numpy as np
rng = np.random.default_rng(0)
years, x = rng.uniform(0.5, 3.0, 500), rng.normal(size=500)
n = rng.poisson(years * np.exp(0.5 * x))
rows = (f"p{i},{a:.3f},{b:.3f},{c}\n" for i, (a, b, c) in enumerate(zip(x, years, n)))
open("claims.csv", "w").write("name,x,years,n\n" + "".join(rows))
PY
check "counts: --family implies regression" "task: regression" \
  tunefree train claims.csv m8 --drop name --estimator glm --family poisson --exposure years
check "counts: --loss and --exposure of trees" "task: regression" \
  tunefree train claims.csv m9 --drop name --estimator trees --loss poisson --exposure years
check "predict counts" "^[0-9.]+" tunefree predict m9 claims.csv
check "demo" "" tunefree demo
check "completion" "complete" env SHELL=/bin/bash tunefree --show-completion bash
gzip -k numbers.csv && python -m zipfile -c numbers.zip numbers.csv && bzip2 -k numbers.csv 2>/dev/null ||
  python -c 'import bz2; open("numbers.csv.bz2", "wb").write(bz2.compress(open("numbers.csv", "rb").read()))'
for file in numbers.csv.gz numbers.zip numbers.csv.bz2; do
  check "$file" "wrote m4" tunefree train $file m4
done
printf 'a,price\n1,2\n3,4,5\n' > bad.csv
check "not a bad row: its place, and the option that skips it" "bad.csv:3:.*--on-bad-row skip" \
  tunefree train bad.csv m5
check "not a misspelt column" "did you mean 'price'" tunefree train bad.csv m5 --target prise
check "not a misspelt estimator" "did you mean 'kernel'" tunefree train numbers.csv m5 --estimator kernal
check "not a misspelt scorer" "did you mean 'roc_auc'" tunefree train kinds.train.csv m5 --scoring roc_acu
head -n 1 kinds.train.csv > head.csv && printf '{"a": 1, "b' > cut.jsonl
check "not a file without rows" "a header and no rows" tunefree train head.csv m5
check "not a line that is cut" "cut.jsonl:1: the line ends within" tunefree stream cut.jsonl

echo "$((count - failed)) of $count checks passed in $SECONDS s"
[ $failed -eq 0 ]
