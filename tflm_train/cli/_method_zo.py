"""Arguments and trainer of `train --method zo`."""


def add_arguments(group):
    """Declare the options of zo."""
    from tflm_train.zo._options import ESTIMATORS
    from tflm_train.zo._weights import UPDATES

    group.add_argument(
        "--q",
        type=int,
        default=16,
        help="random directions a step; the first value with --scheduler",
    )
    group.add_argument("--scheduler", action="store_true", help="QScheduler: raise q on stalls")
    group.add_argument("--q-max", type=int, default=64, help="its highest q (default 64)")
    group.add_argument("--q-alpha", type=float, default=2.0, help="its factor (default 2)")
    group.add_argument("--q-patience", type=int, default=5, help="its patience (default 5)")
    group.add_argument("--q-tau", type=float, default=1e-3, help="its threshold (default 0.001)")
    group.add_argument(
        "--mu",
        type=int,
        help="zo: perturbation in weight steps (default 1); priot, niti: the largest entry of an "
        "update is about 2^MU (default: the model's)",
    )
    group.add_argument("--lr", type=float, default=0.5, help="learning rate (default 0.5)")
    group.add_argument(
        "--normalize",
        default="rms",
        choices=["rms", "raw"],
        help="what lr multiplies (default rms)",
    )
    group.add_argument(
        "--lr-per-q",
        default="constant",
        choices=["constant", "sqrt", "linear"],
        help="how lr follows a growing q (default constant)",
    )
    group.add_argument("--estimator", default="one_sided", choices=ESTIMATORS)
    group.add_argument("--momentum", type=float, default=0.9, help="default 0.9; 0: no buffer")
    group.add_argument("--update", default="stochastic", choices=UPDATES)
    group.add_argument("--decay", default="cosine", choices=["cosine", "constant"])
    group.add_argument("--replay-log", metavar="FILE", help="write seed and scalars of every step")


def make_trainer(args, method, samples, batch_size):
    """A `ZoTrainer`, or its float twin."""
    from tflm_train import Interpreter
    from tflm_train.zo import ZoTrainer, qscheduler

    scheduler = None
    if args.scheduler:
        scheduler = qscheduler(
            q_init=args.q,
            q_max=args.q_max,
            alpha=args.q_alpha,
            patience=args.q_patience,
            tau=args.q_tau,
        )
    options = {
        "scheduler": scheduler,
        "q": args.q,
        "mu": 1 if args.mu is None else args.mu,
        "lr": args.lr,
        "normalize": args.normalize,
        "lr_per_q": args.lr_per_q,
        "estimator": args.estimator,
        "momentum": args.momentum,
        "decay": args.decay,
        "total_steps": args.epochs * -(-samples // batch_size),
        "seed": args.seed,
    }
    interpreter = Interpreter(args.model, engine=args.engine, prefix_engine=args.prefix_engine)
    if method == "zo-float":
        from tflm_train.zo._float_twin import FloatZoTrainer

        return FloatZoTrainer(interpreter, **options)
    return ZoTrainer(interpreter, update=args.update, **options)
