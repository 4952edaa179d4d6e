"""Arguments of the commands that make firmware: export --format c, plan, run-emulated."""

_ZO = ("q", "lr", "normalize", "lr_per_q", "estimator", "momentum", "update")


def add_arguments(parser, targets):
    """`--target` and what training on the device needs to know."""
    parser.add_argument("--target", choices=targets, default=targets[0], help="default %(default)s")
    parser.add_argument("--infer-only", action="store_true", help="leave training out")
    parser.add_argument("--seed", type=int, default=0, help="of every random number (default 0)")
    parser.add_argument(
        "--mu",
        type=int,
        help="priot, niti: the largest entry of an update is about 2^MU (default: the model's); "
        "zo: perturbation in weight steps (default 1)",
    )
    group = parser.add_argument_group("zo on the device")
    group.add_argument("--batch-size", type=int, default=1, help="samples of a step (default 1)")
    group.add_argument("--q", type=int, default=16, help="directions a step (default 16)")
    group.add_argument("--lr", type=float, default=0.5, help="learning rate (default 0.5)")
    group.add_argument("--normalize", default="rms", choices=["rms", "raw"])
    group.add_argument("--lr-per-q", default="constant", choices=["constant", "sqrt", "linear"])
    group.add_argument(
        "--estimator", default="one_sided", choices=["one_sided", "leave_one_out", "two_sided"]
    )
    group.add_argument("--momentum", type=float, default=0.9, help="default 0.9; 0: no buffer")
    group.add_argument("--update", default="stochastic", choices=["stochastic", "int16_shadow"])
    group.add_argument("--total-steps", type=int, help="cosine decay over N steps (default none)")
    group.add_argument("--scheduler", action="store_true", help="QScheduler: raise q on stalls")
    group.add_argument("--q-max", type=int, default=64, help="its highest q (default 64)")
    group.add_argument("--q-alpha", type=float, default=2.0, help="its factor (default 2)")
    group.add_argument("--q-patience", type=int, default=5, help="its patience (default 5)")
    group.add_argument(
        "--q-tau", type=int, default=0, help="its threshold, in the integer metric (default 0)"
    )


def source_of(args):
    """The generated sources that the arguments ask for."""
    from tflm_train._firmware.source import make_source

    return make_source(args.model, args.target, **options_of(args))


def options_of(args):
    """Keyword arguments of `make_source`."""
    scheduler = None
    if args.scheduler:
        scheduler = {"q_init": args.q, "q_max": args.q_max, "alpha": args.q_alpha,
                     "patience": args.q_patience, "tau": args.q_tau}  # fmt: skip
    decay = {"decay": "cosine", "total_steps": args.total_steps} if args.total_steps else {}
    return {
        "trains": not args.infer_only,
        "batch": args.batch_size,
        "mu": args.mu,
        "seed": args.seed,
        "scheduler": scheduler,
        **{name: getattr(args, name) for name in _ZO},
        **decay,
    }
