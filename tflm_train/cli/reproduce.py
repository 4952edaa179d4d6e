"""Run a published experiment again and print it beside the paper's figures.

tflm-train reproduce priot                    # rotated MNIST, every method of the table, 5 seeds
tflm-train reproduce priot --dataset cifar10  # VGG11 on rotated CIFAR-10
"""

NAME = "reproduce"
HELP = "run a paper's experiment again, beside its published figures"

# Modules of this package, one per experiment, with NAME, HELP, add_arguments and run.
_TARGETS = ("_reproduce_priot",)


def add_arguments(parser):
    """Declare a sub-command per experiment."""
    import importlib

    targets = parser.add_subparsers(dest="target", metavar="EXPERIMENT", required=True)
    for name in _TARGETS:
        module = importlib.import_module(f"tflm_train.cli.{name}")
        sub = targets.add_parser(
            module.NAME, help=module.HELP, description=module.__doc__,
            formatter_class=parser.formatter_class, inherited_absl_flags=None,
        )  # fmt: skip
        module.add_arguments(sub)
        sub.set_defaults(run_target=module.run)


def run(args):
    """Run the chosen experiment."""
    return args.run_target(args)
