"""
A messy table, from the command line to the report
==================================================

A table as people keep it: units behind numbers, decimal commas, dates, words, gaps and an id. Three commands make a
model, predictions and a page of it.
"""

import subprocess
import sysconfig
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from vega_datasets import local_data

import sodalite

folder = Path(tempfile.mkdtemp())
cars = local_data.cars().sample(frac=1, random_state=0).reset_index(drop=True)
rng = np.random.default_rng(0)
messy = pd.DataFrame(
    {
        "id": [f"C-{number:04}" for number in range(len(cars))],
        "bought": cars.Year.dt.strftime("%d.%m.%Y"),
        "weight": [f"{weight} lbs" for weight in cars.Weight_in_lbs],
        "power": cars.Horsepower.map(lambda power: "n/a" if np.isnan(power) else f"{power:.0f} hp"),
        "cylinders": cars.Cylinders,
        "origin": cars.Origin.where(rng.random(len(cars)) > 0.05, ""),
        "acceleration": cars.Acceleration.map(lambda seconds: f"{seconds:.1f}".replace(".", ",")),
        "mpg": cars.Miles_per_Gallon,
    }
).dropna(subset="mpg")
messy[:-40].to_csv(folder / "cars.csv", sep=";", index=False)
messy[-40:].drop(columns="mpg").to_csv(folder / "new.csv", sep=";", index=False)
print((folder / "cars.csv").read_text()[:420])

# %%
# Fit
# ---
#
# ``sodalite fit cars.csv --target mpg``. First how the columns are read, by ``--dry-run``:


def run(*arguments):
    """A command of `sodalite`, and what it prints."""
    command = Path(sysconfig.get_path("scripts")) / "sodalite"
    done = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, encoding="utf-8")
    print(done.stdout + done.stderr)


run("fit", "cars.csv", "--target", "mpg", "--dry-run")

# %%
# Then the fit itself. A tenth of the rows is held out, and judges the model beside three simple ways. Thirty-six rows
# are few: between models that are close, they decide little.

run("fit", "cars.csv", "--target", "mpg", "--output", "cars.sodalite")

# %%
# Predict, and report
# -------------------

run("predict", "cars.sodalite", "new.csv", "--interval", "0.9", "--keep", "id", "--output", "predicted.csv")
print((folder / "predicted.csv").read_text()[:200])
run("report", "cars.sodalite", "cars.csv", "--output", "cars.html")
print(f"a page of {(folder / 'cars.html').stat().st_size / 1e6:.1f} MB, in one file")

# %%
# The same model in Python. These are two of the report's figures, and the predictions of the forty new cars.

model = sodalite.load(folder / "cars.sodalite")
predicted = pd.read_csv(folder / "predicted.csv")
true = messy.mpg[-40:].to_numpy()
inside = np.mean((predicted.lower <= true) & (true <= predicted.upper))
print(f"{inside:.0%} of the new cars lie in their 90 % interval")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
model.plot("importance", ax=left)
order = np.argsort(predicted["mean"].to_numpy())
middle = predicted["mean"].to_numpy()[order]
bars = np.abs(predicted[["lower", "upper"]].to_numpy()[order].T - middle)
right.errorbar(range(40), middle, bars, fmt="o", markersize=3, linewidth=1, color="C0", label="90 % interval")
right.plot(range(40), true[order], "x", color="C3", label="true")
right.set(xlabel="new cars, by prediction", ylabel="miles per gallon")
right.legend()
plt.show()
