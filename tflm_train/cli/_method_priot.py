"""Arguments and trainer of `train --method priot|priot-s|niti`."""


def add_arguments(group):
    """Declare the options of the integer-only methods."""
    from converters.priot_net import ROUNDINGS

    group.add_argument(
        "--mu-schedule",
        metavar="S",
        help="decayed (one less at half, two less at three quarters of the epochs), constant, or "
        "values such as 5,4,3 that share the epochs (default: the model's, decayed)",
    )
    group.add_argument(
        "--rounding", choices=ROUNDINGS, help="of outputs and errors (default: the model's, tflm)"
    )
    group.add_argument(
        "--rounding-update", choices=ROUNDINGS, help="of updates (default: the model's)"
    )
    group.add_argument(
        "--backward",
        choices=["masked", "paper"],
        help="errors pass through masked weights, or all of them (the paper's form)",
    )
    group.add_argument(
        "--init",
        metavar="MEAN,STD",
        help="draw new scores from --seed, for instance 0,32 (default: the model's scores)",
    )
    group.add_argument(
        "--threshold", type=int, help="prune edges with a lower score (default: the model's)"
    )
    group.add_argument(
        "--selection", choices=["random", "weight"], help="with --init, priot-s: which edges score"
    )
    group.add_argument(
        "--unscored", type=float, metavar="P", help="with --init, priot-s: share without a score"
    )
    group.add_argument(
        "--average-every",
        type=int,
        default=0,
        metavar="N",
        help="average the scores every N samples and save the average's masks (default 0: off)",
    )
    group.add_argument(
        "--dynamic", action="store_true", help="niti: a shift for every tensor and sample"
    )


def make_trainer(args, method):
    """A `PriotTrainer`."""
    from tflm_train.priot import PriotTrainer

    return PriotTrainer(
        args.model,
        method=method,
        mu=args.mu,
        mu_schedule=_schedule(args.mu_schedule),
        epochs=args.epochs,
        rounding=args.rounding,
        rounding_update=args.rounding_update,
        masked_backward=None if args.backward is None else args.backward == "masked",
        init=pair(args.init),
        threshold=args.threshold,
        selection=args.selection,
        unscored=args.unscored,
        average_every=args.average_every,
        dynamic=args.dynamic,
        seed=args.seed,
    )


def _schedule(text):
    if text is None or text in ("decayed", "constant"):
        return text
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(
            f"Expected --mu-schedule decayed, constant or integers such as 5,4,3; got {text!r}"
        ) from error


def pair(text):
    """(mean, deviation) of `MEAN,STD`, or None."""
    if text is None:
        return None
    try:
        mean, deviation = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"Expected --init MEAN,STD such as 0,32; got {text!r}") from error
    return mean, deviation
