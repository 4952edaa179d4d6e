"""Rebuild trained weights from a replay log, without data and without a forward pass.

The log holds the seed and q numbers a step; with the model training started from, that is the whole
result, in a few kilobytes.

  tflm-train train  model.tflite --data d.npz --replay-log run.zolog --output a.tflite
  tflm-train replay model.tflite run.zolog --output b.tflite      # a and b are equal
"""

NAME = "replay"
HELP = "rebuild trained weights from a seed-replay log"


def add_arguments(parser):
    """Declare this command's arguments."""
    parser.add_argument("model", metavar="MODEL.tflite", help="the model training started from")
    parser.add_argument("log", metavar="RUN.zolog")
    parser.add_argument("--output", required=True, metavar="OUT.tflite")


def run(args):
    """Replay and save."""
    from tflm_train import Interpreter
    from tflm_train.cli import _common
    from tflm_train.zo import ReplayLog, replay

    log = ReplayLog.load(args.log)
    interpreter = Interpreter(args.model)
    replay(interpreter, log)
    interpreter.save(args.output)
    _common.console().print(f"{args.output}: {len(log)} steps replayed")
    return 0
