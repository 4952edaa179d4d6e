"""The PRIOT paper's transfer table: every method, angle and seed, in a pool of processes."""

import dataclasses
import logging
import multiprocessing
import time

import numpy as np

from converters.loading import load_model
from converters.priot_convert import convert_priot
from converters.priot_read import read_net
from tflm_train._loop import epoch_order
from tflm_train.priot._memory import footprint
from tflm_train.priot._trainer import PriotTrainer
from tflm_train.priot.datasets import to_int8, transfer_set

_log = logging.getLogger("tflm_train")

EPOCHS = 30
CALIBRATION = 512


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
      name: what the table prints.
      model: key of the converted model (MODELS).
      options: of `PriotTrainer`.
      paper: the paper's accuracy by angle.
      published: the paper's own setting, rather than one of ours.
      batch: samples a step.
    """

    name: str
    model: str
    options: dict
    paper: dict = dataclasses.field(default_factory=dict)
    published: bool = False
    batch: int = 1

    def with_constant_mu(self, mu):
        """The same line with another mu in all epochs."""
        options = {**self.options, "mu": mu, "mu_schedule": "constant"}
        return dataclasses.replace(self, options=options)


# Converted models: method and options of `convert_priot`. The paper's rows take its rule for the
# shifts (mode) where that rule matters.
MODELS = {
    "niti": {"method": "niti"},
    "priot": {"method": "priot"},
    "priot-paper": {"method": "priot", "shift_rule": "mode", "masked_backward": False},
    "priot-mode": {"method": "priot", "shift_rule": "mode"},
    "s90-random": {"method": "priot-s", "unscored": 0.9, "selection": "random"},
    "s90-weight": {"method": "priot-s", "unscored": 0.9, "selection": "weight"},
    "s80-random": {"method": "priot-s", "unscored": 0.8, "selection": "random"},
    "s80-weight": {"method": "priot-s", "unscored": 0.8, "selection": "weight"},
}

BEFORE = {30: 80.76, 45: 52.25}


def _niti(mu, dynamic=False, **paper):
    kind = "dynamic" if dynamic else "static"
    options = {"method": "niti", "mu": mu, "mu_schedule": "constant", "dynamic": dynamic}
    return Row(f"{kind} NITI, mu {mu}", "niti", options, **paper)


_DENSE = {"init": (0, 32)}
_SPARSE = {"init": (32, 8)}
_CONSTANT = {"mu_schedule": "constant"}
_AVERAGE = {"average_every": 64, "average_shift": 4}

ROWS = (
    _niti(5, paper={30: 80.86, 45: 51.95}, published=True),
    _niti(1),
    _niti(5, dynamic=True, paper={30: 90.43, 45: 90.72}, published=True),
    _niti(2, dynamic=True),
    Row("edge-popup, top 50 %", "priot", {"method": "edge-popup", "kept": 0.5, **_DENSE}),
    Row("PRIOT, paper's form", "priot-paper", {**_CONSTANT, **_DENSE}, {30: 88.94, 45: 85.7}, True),
    Row("PRIOT", "priot", _DENSE),
    Row("PRIOT, averaged scores", "priot", {**_AVERAGE, **_DENSE}),
    Row("PRIOT-S 90 %, random", "s90-random", _SPARSE, {30: 80.35, 45: 62.26}),
    Row("PRIOT-S 90 %, weight", "s90-weight", _SPARSE, {30: 80.05, 45: 75.76}),
    Row("PRIOT-S 80 %, random", "s80-random", _SPARSE, {30: 82.81, 45: 69.80}),
    Row("PRIOT-S 80 %, weight", "s80-weight", _SPARSE, {30: 83.12, 45: 82.05}),
)

# From the paper's form to ours, one change at a time: what lowers the noise between epochs.
ABLATION = (
    Row("paper's form", "priot-paper", {**_CONSTANT, **_DENSE}),
    Row("+ decayed mu", "priot-paper", _DENSE),
    Row("+ averaged scores", "priot-paper", {**_AVERAGE, **_DENSE}),
    Row("masked W, mode, decayed", "priot-mode", _DENSE),
    Row("masked W, mode, constant", "priot-mode", {**_CONSTANT, **_DENSE}),
    Row("all W, cover, constant", "priot", {"masked_backward": False, **_CONSTANT, **_DENSE}),
    Row("masked W, cover, constant", "priot", {**_CONSTANT, **_DENSE}),
    Row("masked W, cover, decayed", "priot", _DENSE),
    Row("the same, averaged scores", "priot", {**_AVERAGE, **_DENSE}),
    Row("the same, mu 3", "priot", {"mu": 3, **_DENSE}),
    Row("the same, mu 1", "priot", {"mu": 1, **_DENSE}),
    Row("the same, batch 8", "priot", _DENSE, batch=8),
    Row("the same, stochastic", "priot", {"rounding_update": "stochastic", **_DENSE}),
    Row("the same, zeros", "priot", {"init": (0, 0)}),
)

PAPER_BYTES = {
    "niti": 80136, "priot": 138044, "priot-paper": 138044,
    "s90-weight": 97672, "s80-weight": 102880, "s90-random": 97672, "s80-random": 102880,
}  # fmt: skip


def convert_all(model, source, *, names=None, progress=None):
    """{name of MODELS: flatbuffer} for a Keras model, calibrated on upright pre-training images."""
    rng = np.random.default_rng(0)
    picked = np.sort(rng.permutation(source.pretraining)[:CALIBRATION])
    model = load_model(model)
    result = {}
    for name in names or MODELS:
        result[name] = convert_priot(
            model,
            calibration=source.x_train[picked],
            targets=source.y_train[picked],
            normalization={"scale": 1 / 256, "offset": 0.0},
            **MODELS[name],
        )
        if progress is not None:
            progress(len(result), len(names or MODELS))
    return result


def footprints(models):
    """{name: bytes} by the paper's accounting."""
    return {name: footprint(read_net(raw)[0]) for name, raw in models.items()}


def upright_accuracy(raw, source):
    """Share of the upright test images that a converted model classifies right."""
    trainer = PriotTrainer(raw, threshold=-128 if read_net(raw)[0].method != "niti" else None)
    return trainer.evaluate([to_int8(source.x_test)], source.y_test)[1]


@dataclasses.dataclass(frozen=True)
class Job:
    """One run: a row, an angle, a seed."""

    row: int
    angle: int
    seed: int


_SHARED = {}


def _start(models, data, rows, epochs, on_validation):
    _SHARED.update(models=models, data=data, rows=rows, epochs=epochs, on_validation=on_validation)


def run_job(job):
    """Train one row; returns accuracies by epoch, in percent, and what the pictures need."""
    row, data = _SHARED["rows"][job.row], _SHARED["data"][job.angle]
    epochs = _SHARED["epochs"]
    began = time.monotonic()
    trainer = PriotTrainer(
        _SHARED["models"][row.model], epochs=epochs, **{"seed": job.seed, **row.options}
    )
    messages = []
    trainer.warn = messages.append
    x, y = [data.x_train], data.y_train
    if _SHARED["on_validation"]:
        x_test, y_test = [data.x_validation], data.y_validation
    else:
        x_test, y_test = [data.x_test], data.y_test
    before = trainer.evaluate(x_test, y_test)[1]
    train, test, pruned = [], [], []
    for epoch in range(epochs):
        order = epoch_order(len(y), job.seed, epoch)
        trainer.train_chunk(x, y, order, row.batch)
        # Of the model as it stands: a noisy method's running accuracy says little about it.
        train.append(100 * trainer.evaluate(x, y)[1])
        test.append(100 * trainer.evaluate(x_test, y_test)[1])
        statistics = trainer.statistics()
        pruned.append({k[7:]: v for k, v in statistics.items() if k.startswith("pruned/")})
        trainer.on_epoch_end({})
    best = best_epoch(train)
    return {
        "row": job.row, "angle": job.angle, "seed": job.seed, "before": 100 * before,
        "train": train, "test": test, "pruned": pruned,
        "best_epoch": best + 1, "best": test[best], "last": test[-1],
        "warnings": sorted(set(messages)), "seconds": time.monotonic() - began,
        "scores": _scores(trainer) if job.seed == 0 else None,
    }  # fmt: skip


def best_epoch(train):
    """Epoch after which the training accuracy is best; the last of equal ones."""
    return len(train) - 1 - int(np.argmax(train[::-1]))


def _scores(trainer):
    """Histograms of the scores, and of |weight| of kept and pruned edges, by layer."""
    result = {}
    trainer.model_bytes()
    for layer in trainer.net.weighted():
        if layer.scores is None:
            return None
        chosen = slice(None) if layer.scored is None else layer.scored
        pruned = (layer.effective() == 0) & (layer.weights != 0)
        magnitude = np.abs(layer.weights.astype(np.int16))
        result[layer.name] = {
            "threshold": layer.threshold,
            "scores": np.histogram(layer.scores[chosen], np.arange(-128, 129, 4))[0].tolist(),
            "kept": np.histogram(magnitude[~pruned], np.arange(0, 129, 4))[0].tolist(),
            "pruned": np.histogram(magnitude[pruned], np.arange(0, 129, 4))[0].tolist(),
        }
    return result


def reproduce(
    models, source, *, angles=(30, 45), seeds=5, epochs=EPOCHS, rows=ROWS, processes=2,
    on_validation=False, sizes=(1024, 1024), done=(), progress=None,
):  # fmt: skip
    """Run the table.

    Args:
      models: what `convert_all` gave.
      source: a `Source`.
      angles: degrees.
      seeds: runs per cell, seeds 0 to seeds - 1.
      epochs: per run.
      rows: `Row`s.
      processes: worker processes.
      on_validation: measure on the validation images, to choose settings.
      sizes: training and test images.
      done: results of some of these runs, which are not made again.
      progress: called with (results so far, runs in all).

    Returns:
      A list of results, one per run (`run_job`), the `done` ones first.
    """
    data = {a: transfer_set(source, a, train=sizes[0], test=sizes[1]) for a in angles}
    every = [Job(r, a, s) for s in range(seeds) for r in range(len(rows)) for a in angles]
    results = list(done)
    made = {Job(r["row"], r["angle"], r["seed"]) for r in results}
    jobs = [job for job in every if job not in made]
    shared = (models, data, rows, epochs, on_validation)

    def keep(result):
        results.append(result)
        if progress is not None:
            progress(results, len(every))

    if processes == 1 or not jobs:
        _start(*shared)
        for job in jobs:
            keep(run_job(job))
    else:
        context = multiprocessing.get_context("spawn")
        with context.Pool(processes, _start, shared) as pool:
            for result in pool.imap_unordered(run_job, jobs):
                keep(result)
    return results


def summarise(results, rows=ROWS):
    """One dict per row and angle: mean and standard deviation of best and last epoch."""
    table = []
    for number, row in enumerate(rows):
        for angle in sorted({r["angle"] for r in results}):
            runs = [r for r in results if r["row"] == number and r["angle"] == angle]
            if not runs:
                continue
            best, last = [r["best"] for r in runs], [r["last"] for r in runs]
            changes = [np.diff(r["test"][-10:]) for r in runs]
            noise = [np.std(change) if len(change) else 0.0 for change in changes]
            table.append(
                {
                    "row": row.name,
                    "model": row.model,
                    "angle": angle,
                    "seeds": len(runs),
                    "best_mean": float(np.mean(best)),
                    "best_std": float(np.std(best)),
                    "last_mean": float(np.mean(last)),
                    "last_std": float(np.std(last)),
                    "epoch_noise": float(np.mean(noise)),
                    "paper": row.paper.get(angle),
                    "before": float(np.mean([r["before"] for r in runs])),
                    "collapsed": sum(bool(r["warnings"]) for r in runs),
                }  # fmt: skip
            )
    return table
