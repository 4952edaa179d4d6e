"""Arguments of `convert --method priot|priot-s|niti`."""

_OPTIONS = (
    "mu", "rounding", "rounding_update", "init", "threshold", "unscored", "selection", "shift_rule",
)  # fmt: skip


def add_arguments(group):
    """Declare the options of the integer-only methods; None leaves the method's default."""
    from converters.priot_calibrate import RULES
    from converters.priot_net import ROUNDINGS
    from converters.priot_scores import SELECTIONS

    group.add_argument("--mu", type=int, help="largest entry of an update is about 2^MU")
    group.add_argument(
        "--rounding", choices=ROUNDINGS, help="default tflm, what stock TFLM computes"
    )
    group.add_argument("--rounding-update", choices=ROUNDINGS, help="of updates (default the same)")
    group.add_argument(
        "--init", metavar="MEAN,STD", help="of the scores (default 0,32; priot-s 32,8)"
    )
    group.add_argument(
        "--threshold", type=int, help="prune edges with a lower score (default -64; priot-s 0)"
    )
    group.add_argument(
        "--unscored", type=float, metavar="P", help="priot-s: share without a score (default 0.9)"
    )
    group.add_argument("--selection", choices=SELECTIONS, help="priot-s: default weight")
    group.add_argument(
        "--shift-rule", choices=tuple(RULES), help="backward shifts: cover (default), or mode"
    )
    group.add_argument(
        "--backward", choices=["masked", "paper"], help="errors pass masked weights, or all of them"
    )
    group.add_argument(
        "--graph",
        default="infer",
        choices=["infer", "train"],
        help="train: a graph whose Invoke() in TFLM is one training step (docs/tflm.md)",
    )


def options(args):
    """`method_options` of `convert`.

    Raises:
      ConversionError: such an option for another method.
    """
    from converters.errors import ConversionError
    from tflm_train.cli._method_priot import pair

    if args.graph == "train" and args.method == "zo":
        raise ConversionError(
            "Expected --method priot, priot-s or niti with --graph train, got zo: forward-only "
            "training takes the ordinary graph (docs/tflm.md)"
        )
    found = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if "init" in found:
        found["init"] = pair(found["init"])
    if args.backward is not None:
        found["masked_backward"] = args.backward == "masked"
    if found and args.method == "zo":
        names = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(found))
        raise ConversionError(f"Expected --method priot, priot-s or niti with {names}, got zo")
    return found
