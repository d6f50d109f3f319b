"""`manage.py train_dl2`: train DL2's network on a scenario, and say by how much it beats its teacher."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from django.core.management.base import CommandParser

from scheduling.core.policies import POLICIES
from scheduling.core.policies.dl2.shape import NetworkShape
from scheduling.core.scenario import BadScenario
from scheduling.core.training import course as courses
from scheduling.core.training.course import Course, TrainingState
from scheduling.core.training.learner import Rules
from scheduling.lab import training
from scheduling.lab.comparison import csv_text
from scheduling.lab.curve_plot import pictures
from scheduling.lab.files import flaws_of, folder_make, save, scenario_load
from scheduling.lab.progress import ProgressLine
from scheduling.lab.running import check_name
from scheduling.lab.training import Drawing, TrainingVerdict
from scheduling.lab.worlds import ONE, WORLDS
from scheduling.management.base import FileCommand

DEFAULT_TEACHER = "dominant_resource_fairness"
DEFAULT_ROUNDS, ENDLESS = 200, 10**9
RULES = Rules()

# The options that are numbers. Each has its name, its type, its default, its least value and its help text.
NUMBERS: tuple[tuple[str, type, float, float, str], ...] = (
    ("seed", int, 1, 0, "everything drawn depends on it and the scenario's own seed"),
    ("clusters", int, 1, 1, "train on so many clusters, each with draws of its own, averaged after every round"),
    ("jobs", int, 40, 1, "jobs that the network sees at once (J)"),
    ("lessons", int, 12, 1, "draws on which the teacher is watched"),
    ("passes", int, 200, 1, "times to go through the lessons"),
    ("every", int, 10, 1, "rounds between two judgements"),
    ("validation", int, 8, 1, "draws for the learning curve, and for choosing the best weights"),
    ("held_out", int, 20, 2, "draws for the verdict, used for nothing else"),
    ("rate", float, RULES.rate, 0, "learning rate of the policy's network"),
    ("value_rate", float, RULES.value_rate, 0, "learning rate of the value network"),
    ("gamma", float, RULES.gamma, 0, "what the next slot's value counts in this one; 0: nothing"),
    ("entropy", float, RULES.entropy, 0, "weight of the entropy, divided by the number of actions"),
    ("explore", float, RULES.explore, 0, "probability with which a poor state is mended"),
    ("replay", int, RULES.replay, 256, "samples that are remembered"),
    ("updates", int, RULES.updates, 1, "steps of both networks after a slot"),
    ("resting", int, RULES.resting, 0, "rounds in which only the value network learns"),
)


class Command(FileCommand):
    help = (
        "Train DL2's network: warm it up on a teacher's decisions, then let it learn from rewards. Ctrl-C stops it; "
        "the same command in the same folder goes on. The same command gives the same weights, byte for byte."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--scenario", type=Path, required=True, metavar="S.json", help="jobs and machines")
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="weights, curve and plots go there")
        parser.add_argument("--teacher", default=DEFAULT_TEACHER, metavar="NAME", help="(default %(default)s)")
        parser.add_argument(
            "--rounds", type=int, metavar="N", help=f"runs of the scenario to learn from (default {DEFAULT_ROUNDS})"
        )
        parser.add_argument("--slots", type=int, metavar="N", help="stop once so many slots are played")
        for name, kind, default, _, text in NUMBERS:
            option = f"--{name.replace('_', '-')}"
            parser.add_argument(option, type=kind, default=default, metavar="N", help=f"{text} (default %(default)s)")
        parser.add_argument(
            "--speed",
            choices=list(WORLDS),
            default=ONE,
            help="how fast jobs train: one for all, or as measured and twice the workers a job (default %(default)s)",
        )
        parser.add_argument("--no-first-bundle", action="store_true", help="no job has its least gang for certain")
        parser.add_argument("--no-shuffle", action="store_true", help="lessons have jobs in order of arrival only")
        parser.add_argument("--bounded", action="store_true", help="weigh samples by min(1, probability now / then)")
        parser.add_argument(
            "--offline",
            action="store_true",
            help="for offline_rl: speeds are fitted functions instead of what would really happen",
        )

    def handle(self, **options: Any) -> None:
        _check(options)
        drawing = Drawing.of(scenario_load(options["scenario"]), options["teacher"], WORLDS[options["speed"]])
        with flaws_of(options["scenario"]):
            watched = drawing.steps(training.LESSONS, options["lessons"])
            course = _course(options, training.types_of(watched))
        folder_make(options["out"])
        state = training.resume(options["out"], course) or courses.begin(course)
        validation = drawing.steps(training.VALIDATION, options["validation"])
        if state.rounds or state.passes:
            self.stdout.write(f"{options['out']}: goes on after {state.passes} passes and {state.rounds} rounds")
        rounds = options["rounds"]
        if rounds is None:
            rounds = DEFAULT_ROUNDS if options["slots"] is None else ENDLESS
        with ProgressLine("training", "passes and rounds") as progress:
            state = training.train(
                course,
                drawing,
                options["out"],
                state,
                rounds=rounds,
                slots=ENDLESS if options["slots"] is None else options["slots"],
                every=options["every"],
                validation=validation,
                lessons=training.lessons_of(watched, course.shape, drawing.world),
                report=progress,
            )
        self._finish(options, drawing, course, state, training.judge_teacher(validation, drawing.world))

    def _finish(self, options: Any, drawing: Drawing, course: Course, state: TrainingState, teachers: Any) -> None:
        """Judge the network on held-out draws, by which nothing was chosen. Write all files, and print the verdict."""
        held_out = drawing.steps(training.HELD_OUT, options["held_out"])
        facts = {
            "seed": course.seed,
            "teacher": drawing.teacher,
            "rounds": state.rounds,
            "slots": state.slots,
            "clusters": course.clusters,
            "offline": course.offline,
            "speed": drawing.world.name,
            "scenario": drawing.scenario.generator and dict(drawing.scenario.generator),
        }
        network = courses.network(course, state, facts)
        world = drawing.world
        verdict = TrainingVerdict(
            training.judge_teacher(held_out, world), training.judge_network(network, held_out, world)
        )
        network = courses.network(course, state, facts | {"held_out": verdict.document()})
        training.deliver(options["out"], network)
        line = fmean(score.completion for score in teachers)
        heads = ["round", "slots", "completion", "reward"]
        save(options["out"] / "curve.csv", csv_text(heads, ([point[head] for head in heads] for point in state.curve)))
        for form, content in pictures(state.curve, line, drawing.teacher).items():
            save(options["out"] / f"curve.{form}", content)
        self.stdout.write(_verdict_text(verdict, drawing, options["out"]))


def _check(options: dict[str, Any]) -> None:
    """Raise BadScenario, under the option's name, for a value that is not possible."""
    if options["offline"] and options["speed"] != ONE:
        raise BadScenario("--offline", "has fitted speeds of its own, and --speed others")
    check_name(options["teacher"], "--teacher")
    if options["teacher"] in ("dl2", "offline_rl"):
        raise BadScenario("--teacher", f"{options['teacher']} is what is taught; there are {', '.join(_teachers())}")
    for name, _, _, least, _ in NUMBERS:
        if not least <= options[name] < ENDLESS:
            raise BadScenario(f"--{name.replace('_', '-')}", f"must be {least:g} or more, not {options[name]:g}")
    for name in ("gamma", "explore"):
        if options[name] > 1:
            raise BadScenario(f"--{name}", f"must be at most 1, not {options[name]:g}")
    for name in ("rounds", "slots"):
        if options[name] is not None and options[name] < 0:
            raise BadScenario(f"--{name}", f"must be 0 or more, not {options[name]}")


def _teachers() -> list[str]:
    return [name for name in sorted(POLICIES) if name not in ("dl2", "offline_rl")]


def _course(options: dict[str, Any], types: tuple[str, ...]) -> Course:
    """Return the course of training that the options describe."""
    shape = NetworkShape(
        jobs=options["jobs"],
        columns=max(NetworkShape.columns, len(types) + 1),
        types=types,
        first_bundle=not options["no_first_bundle"],
    )
    names = ("rate", "value_rate", "gamma", "entropy", "explore", "replay", "updates", "resting")
    return Course(
        shape=shape,
        seed=options["seed"],
        clusters=options["clusters"],
        passes=options["passes"],
        shuffle=not options["no_shuffle"],
        offline=options["offline"],
        speed="" if options["speed"] == ONE else options["speed"],
        rules=Rules(**{name: options[name] for name in names}, bounded=options["bounded"]),
    )


def _verdict_text(verdict: TrainingVerdict, drawing: Drawing, folder: Path) -> str:
    """Return the figures of the teacher and of dl2 as text, and their difference with its spread."""
    completion, document = verdict.completion, verdict.document()
    where = (
        f"{completion.runs} held-out draws"
        if drawing.redrawn
        else "the scenario of the training: it has no other draws"
    )
    better = "shorter" if completion.mean > 0 else "longer"
    return (
        f"{folder}: judged on {where}\n"
        f"  mean completion, slots  {drawing.teacher} {document['teacher_completion_slots']:.2f}, "
        f"dl2 {document['completion_slots']:.2f}\n"
        f"  mean reward of a slot   {drawing.teacher} {document['teacher_reward']:.3f}, dl2 {document['reward']:.3f}\n"
        f"  {abs(completion.mean):.1%} {better} than the teacher ± {completion.spread:.1%} (standard deviation over "
        f"draws), sooner in {completion.wins} of {completion.runs}"
    )
