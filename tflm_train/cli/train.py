"""Train an int8 model further, in integers, without a backward pass (zo) or a float unit (priot).

  tflm-train train model.tflite --data digits --rotate 30 --epochs 20
  tflm-train train model.tflite --data d.npz --q 4 --scheduler --q-max 64 --checkpoint run.ckpt
  tflm-train train model.tflite --data d.npz --checkpoint run.ckpt --resume

The result is an ordinary .tflite; scales never change. A run that is stopped or killed continues
from its checkpoint with --resume, bit for bit. PICTURE shows accuracy, loss and q over the epochs.
"""

NAME = "train"
HELP = "train an int8 model further: zo, priot, priot-s or niti"


def add_arguments(parser):
    """Declare this command's arguments."""
    from tflm_train.cli import _common, _method_priot, _method_zo

    parser.add_argument("model", metavar="MODEL.tflite")
    _common.add_data_arguments(parser)
    parser.add_argument(
        "--method",
        choices=["zo", "zo-float", "priot", "priot-s", "niti"],
        help="default: the method the model was converted for; zo-float is zo's float twin, for "
        "comparison",
    )
    parser.add_argument("--output", metavar="OUT.tflite", help="default MODEL.trained.tflite")
    parser.add_argument("--epochs", type=int, default=20, help="epochs in all (default 20)")
    parser.add_argument(
        "--batch-size", type=int, help="samples a step (default 64; priot, niti: 1)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of every random number (default 0)")
    parser.add_argument(
        "--validation",
        metavar="DATA",
        help="data as for --data; default: a fifth of --data is held out",
    )
    parser.add_argument(
        "--keep",
        default="best",
        choices=["best", "last"],
        help="which epoch's weights to save: best validation accuracy (default) or the last",
    )
    parser.add_argument("--checkpoint", metavar="FILE", help="default OUT.tflite.ckpt")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=30.0, help="time between saves (default 30)"
    )
    parser.add_argument(
        "--patience", type=int, default=30, help="stop after so many stagnant epochs (default 30)"
    )
    parser.add_argument("--augment", action="store_true", help="random flips and 2-pixel crops")
    parser.add_argument("--no-flip", action="store_true", help="with --augment: crops only")
    parser.add_argument("--plot", metavar="PICTURE.png", help="default OUT.png")
    parser.add_argument("--history", metavar="FILE.json", help="also write the epochs as JSON")
    _common.add_engine_arguments(parser)
    _method_zo.add_arguments(parser.add_argument_group("zo"))
    _method_priot.add_arguments(parser.add_argument_group("priot, priot-s, niti"))


def run(args):
    """Train, show progress, save the model, the picture and the history."""
    from pathlib import Path

    from converters.atomic import remove_with_leftovers, write_bytes_atomically
    from tflm_train import _report
    from tflm_train.cli import _common
    from tflm_train.data import flips_and_crops, split

    out = _common.console()
    output = Path(args.output or Path(args.model).with_suffix(".trained.tflite"))
    checkpoint = Path(args.checkpoint or f"{output}.ckpt")
    _check_paths(output, checkpoint, args)
    data = _common.load_data(args, "train")
    if args.validation:
        held_out = _common.load_data(_with_data(args, args.validation), "test")
    else:
        data, held_out = split(data, 0.2, seed=args.seed)
    trainer, args.batch_size = _make_trainer(args, data, out)
    result = _fit(args, trainer, data, held_out, checkpoint, out, flips_and_crops)
    model = result.best_model if args.keep == "best" else trainer.model_bytes()
    write_bytes_atomically(output, model)
    picture = Path(args.plot or output.with_suffix(".png"))
    _report.plot_history(result.history, picture, title=f"{trainer.method}: {data.name}")
    if args.history:
        _report.write_history(result.history, args.history)
    if getattr(args, "replay_log", None):
        trainer.log.save(args.replay_log)
    remove_with_leftovers(checkpoint)
    if result.stopped:
        out.print(f"stopped early: {result.stopped}")
    out.print(f"{output}: weights of epoch {result.best_epoch if args.keep == 'best' else 'last'}; "
              f"picture {picture}")  # fmt: skip
    return 0


def _check_paths(output, checkpoint, args):
    for path in (output, checkpoint, args.plot, args.history, getattr(args, "replay_log", None)):
        if path is None:
            continue
        from pathlib import Path

        folder = Path(path).resolve().parent
        if not folder.is_dir():
            raise ValueError(f"Expected an existing folder for {path}, got {folder}: create it")
    if checkpoint.exists() and not args.resume:
        raise ValueError(
            f"Expected no unfinished run, got a checkpoint {checkpoint}: add --resume to continue "
            "it, or remove it to start again"
        )


def _with_data(args, source):
    import argparse

    return argparse.Namespace(**{**vars(args), "data": source})


def _make_trainer(args, data, out):
    from converters.flatbuffer import load_bytes, read_model
    from converters.training_info import read_training_info
    from tflm_train.cli import _common, _method_priot, _method_zo

    info = read_training_info(read_model(load_bytes(args.model)))
    _common.warn_uncalibrated(out, info)
    method = args.method or (info.method if info else "zo")
    if method in ("zo", "zo-float"):
        batch_size = args.batch_size or 64
        return _method_zo.make_trainer(args, method, len(data), batch_size), batch_size
    return _method_priot.make_trainer(args, method), args.batch_size or 1


def _fit(args, trainer, data, held_out, checkpoint, out, flips_and_crops):
    from tflm_train import early_stopping, fit
    from tflm_train.cli._progress import TrainingView

    augment = None
    if args.augment:
        augment = flips_and_crops(flip=not args.no_flip, seed=args.seed)
    with TrainingView(out, args.epochs) as view:
        return fit(
            trainer,
            data.labelled(),
            held_out.labelled(),
            epochs=args.epochs,
            batch_size=args.batch_size,
            seed=args.seed,
            augment=augment,
            stopping=early_stopping(patience=args.patience),
            checkpoint=checkpoint,
            checkpoint_seconds=args.checkpoint_seconds,
            on_batch=view.batch,
            on_epoch=view.epoch,
        )
