"""The training loop every method shares: epochs, progress, checkpoints, exact resume."""

import dataclasses
import logging
import time
import zlib

import numpy as np

from converters.errors import DataError
from tflm_train import _native
from tflm_train._checkpoint import load_checkpoint, save_checkpoint

_log = logging.getLogger("tflm_train")

# Random stream of the sample order; directions use 0 .. 127 and rounding 2^32 - 1.
_ORDER_STREAM = 2**32 - 2


@dataclasses.dataclass
class Result:
    """What `fit` gives back.

    Attributes:
      history: one dict per epoch: `epoch`, `train_loss`, `train_accuracy`, `validation_loss`,
        `validation_accuracy`, `seconds` and the method's statistics.
      best_epoch: epoch of the best validation (else training) accuracy or loss.
      best_model: flatbuffer bytes of that epoch.
      stopped: why training ended early, or None.
    """

    history: list
    best_epoch: int
    best_model: bytes
    stopped: str | None = None


@dataclasses.dataclass
class _Progress:
    """Where a run is; saved as it is."""

    epoch: int = 0
    position: int = 0
    loss_sum: float = 0.0
    correct: int = 0
    counted: int = 0
    seconds: float = 0.0


def epoch_order(count, seed, epoch):
    """Order of the samples in an epoch: a permutation that depends on (count, seed, epoch) only."""
    words = _native.rng_words(seed, epoch, _ORDER_STREAM, 0, count)
    return np.argsort(words, kind="stable")


def fit(
    trainer,
    train,
    validation=None,
    *,
    epochs,
    batch_size=32,
    seed=0,
    augment=None,
    stopping=None,
    checkpoint=None,
    checkpoint_seconds=30.0,
    on_batch=None,
    on_epoch=None,
):
    """Train for `epochs`, or continue the run that `checkpoint` holds.

    Args:
      trainer: a `Trainer`, for instance `ZoTrainer`.
      train: (x, y); x as the model's calibration data or int8, y labels (or targets).
      validation: (x, y) or None; steers early stopping, the q scheduler and the best epoch.
      epochs: epochs in all, 1 or more.
      batch_size: samples a step; the last step of an epoch may have fewer.
      seed: of the order of samples, 0 to 2^32 - 1.
      augment: `augment(x, indices, epoch) -> x`, applied before the frozen prefix; slower, since
        features cannot be cached then.
      stopping: an `early_stopping(...)` or None.
      checkpoint: path; written at every epoch's end and every `checkpoint_seconds`. If the file
        exists the run continues from it, bit for bit.
      on_batch: called with (epoch, samples done, samples in all, last batch's result).
      on_epoch: called with the epoch's row.

    Returns:
      A `Result`.

    Raises:
      DataError: data that do not fit the model.
      CheckpointError: the checkpoint is damaged or of another run.
      TrainingError: the method cannot go on.

    Example:
      >>> from tflm_train import fit
      >>> result = fit(trainer, (x, y), epochs=3)  # doctest: +SKIP
    """
    if epochs < 1 or batch_size < 1:
        raise ValueError(f"Expected epochs and batch_size of 1 or more, got {epochs}, {batch_size}")
    run = _Run(trainer, train, validation, batch_size, seed, augment, stopping, epochs)
    if checkpoint is not None:
        run.resume(checkpoint)
    run.checkpoint, run.checkpoint_seconds = checkpoint, checkpoint_seconds
    try:
        while run.progress.epoch < epochs and run.stopped is None:
            run.epoch(on_batch)
            if on_epoch is not None:
                on_epoch(run.history[-1])
    except KeyboardInterrupt:
        run.save()
        raise
    return Result(run.history, run.best_epoch, run.best_model, run.stopped)


def _crc32(x, y):
    parts = list(x) if isinstance(x, (list, tuple)) else [x]
    crc = 0
    for part in [*parts, y]:
        crc = zlib.crc32(np.ascontiguousarray(part), crc)
    return crc


class _Run:
    def __init__(self, trainer, train, validation, batch_size, seed, augment, stopping, epochs):
        self.trainer, self.batch_size, self.seed = trainer, batch_size, seed
        self.augment, self.stopping = augment, stopping
        self.x, self.y = train[0], trainer.check_targets(train[1])
        self.count = len(self.y)
        x_count = len(self.x[0]) if isinstance(self.x, (list, tuple)) else len(self.x)
        if not self.count or x_count != self.count:
            raise DataError(f"Expected as many samples as labels, got {x_count} and {self.count}")
        self.data = None if augment else trainer.prepare(self.x)
        self.validation = None
        if validation is not None:
            self.validation = (
                trainer.prepare(validation[0]),
                trainer.check_targets(validation[1]),
            )
        self.progress = _Progress()
        self.history = []
        self.stopping_state = stopping.init() if stopping else None
        self.best_epoch, self.best_score = 0, -np.inf
        self.best_model = trainer.model_bytes()
        self.stopped = None
        self.checkpoint, self.checkpoint_seconds = None, 30.0
        self._saved_at = time.monotonic()
        self._chunk = batch_size
        self.configuration = {
            "method": trainer.method,
            "batch_size": batch_size,
            "shuffle_seed": seed,
            "samples": self.count,
            "data_crc32": _crc32(self.x, self.y),
            "augment": augment is not None,
            **trainer.configuration(),
        }

    def epoch(self, on_batch):
        p = self.progress
        order = epoch_order(self.count, self.seed, p.epoch)
        while p.position < self.count:
            began = time.monotonic()
            part = order[p.position : p.position + self._chunk]
            results = self._train(part)
            for row in results:
                if row.get("loss") is not None:
                    p.loss_sum += row["loss"] * row["samples"]
                if row.get("correct") is not None:
                    p.correct += row["correct"]
                    p.counted += row["samples"]
            p.position += len(part)
            elapsed = time.monotonic() - began
            p.seconds += elapsed
            self._adapt(elapsed)
            if on_batch is not None:
                on_batch(p.epoch, p.position, self.count, results[-1])
            if time.monotonic() - self._saved_at > self.checkpoint_seconds:
                self.save()
        self._finish_epoch()

    def _train(self, part):
        if self.augment is None:
            return self.trainer.train_chunk(self.data, self.y, part, self.batch_size)
        results = []
        for begin in range(0, len(part), self.batch_size):
            batch = part[begin : begin + self.batch_size]
            x = self.augment(np.asarray(self.x)[batch], batch, self.progress.epoch)
            results.append(self.trainer.train_batch(self.trainer.prepare(x), self.y[batch]))
        return results

    def _adapt(self, elapsed):
        # Whole batches that take about a tenth of a second; results do not depend on the chunk.
        if elapsed < 0.05:
            self._chunk = min(self._chunk * 2, self.batch_size * 4096)
        elif elapsed > 0.2:
            self._chunk = max(
                self.batch_size, self._chunk // 2 // self.batch_size * self.batch_size
            )

    def _finish_epoch(self):
        p = self.progress
        row = {
            "epoch": p.epoch + 1,
            "train_loss": p.loss_sum / self.count,
            "train_accuracy": p.correct / p.counted if p.counted else None,
            "validation_loss": None,
            "validation_accuracy": None,
            "seconds": p.seconds,
        }
        if self.validation is not None:
            loss, accuracy = self.trainer.evaluate(*self.validation)
            row["validation_loss"], row["validation_accuracy"] = loss, accuracy
        row.update(self.trainer.statistics())
        self.trainer.on_epoch_end(row)
        self.history.append(row)
        self._keep_best(row)
        if self.stopping is not None:
            watched = row["validation_loss"]
            watched = row["train_loss"] if watched is None else watched
            self.stopping_state, self.stopped = self.stopping.update(
                row["train_loss"], watched, self.stopping_state
            )
        self.progress = _Progress(epoch=p.epoch + 1)
        self.save()

    def _keep_best(self, row):
        for name, sign in (
            ("validation_accuracy", 1),
            ("validation_loss", -1),
            ("train_accuracy", 1),
            ("train_loss", -1),
        ):
            if row[name] is not None:
                score = sign * row[name]
                break
        if score > self.best_score:
            self.best_score, self.best_epoch = score, row["epoch"]
            self.best_model = self.trainer.model_bytes()

    def save(self):
        self._saved_at = time.monotonic()
        if self.checkpoint is None:
            return
        save_checkpoint(
            self.checkpoint,
            self.configuration,
            {
                "progress": dataclasses.asdict(self.progress),
                "history": self.history,
                "best_epoch": self.best_epoch,
                "best_score": float(self.best_score),
                "stopping": self.stopping_state,
                "stopped": self.stopped,
            },
            {"best_model": np.frombuffer(self.best_model, np.uint8)},
            self.trainer.state_dict(),
        )

    def resume(self, path):
        found = load_checkpoint(path, self.configuration)
        if found is None:
            return
        meta, arrays, state = found
        self.trainer.load_state_dict(state)
        self.progress = _Progress(**meta["progress"])
        self.history = meta["history"]
        self.best_epoch, self.best_score = meta["best_epoch"], meta["best_score"]
        self.best_model = arrays["best_model"].tobytes()
        self.stopped = meta["stopped"]
        if self.stopping is not None:
            self.stopping_state = type(self.stopping_state)(*meta["stopping"])
        _log.info("continuing from %s: epoch %d, sample %d", path, self.progress.epoch + 1,
                  self.progress.position)  # fmt: skip
