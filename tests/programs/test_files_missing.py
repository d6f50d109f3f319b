"""Files that a script runs and that do not come along: told where it is sure, and never where it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.programs.sbatch import Script, read
from scheduling.programs.sbatch.commands import MOST_SIGNS
from scheduling.programs.sbatch.files_missing import ANYTHING, FileNames, files_missing


def missing(text: str, *names: str, head: str = "#!/bin/bash -eu\n") -> list[tuple[int, str]]:
    script = read(head + text)
    assert isinstance(script, Script), script
    return list(files_missing(script, FileNames.of(names)))


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("python train.py", "train.py"),
        ("python3.11 -u -W ignore train.py --epochs 3 other.py", "train.py"),
        ("/usr/bin/python3 -X dev src/train.py", "src/train.py"),
        ("CUDA_VISIBLE_DEVICES=0 python ./train.py > out.log 2>&1", "train.py"),
        ("srun -n 4 --cpu-bind=none python train.py", "train.py"),
        ("exec nohup python train.py &", "train.py"),
        ("time python train.py | tee log", "train.py"),
        ("mpirun -np 4 python train.py", "train.py"),
        ("conda run -n env python train.py", "train.py"),
        ("torchrun --nproc_per_node 4 --standalone train.py --lr 1", "train.py"),
        ("accelerate launch --config_file a.yaml scripts/train.py", "scripts/train.py"),
        ("python -u -m torch.distributed.launch --nproc_per_node=2 train.py", "train.py"),
        ("srun deepspeed --num_gpus 2 train.py --deepspeed ds.json", "train.py"),
        ("bash run.sh", "run.sh"),
        ("bash -euo pipefail -x scripts/run.sh a", "scripts/run.sh"),
        ("source env.sh", "env.sh"),
        (". ./env.sh", "env.sh"),
        ("./train", "train"),
        ("srun ./train --fast", "train"),
        ("Rscript fit.R", "fit.R"),
        ("x=$(python count.py)", "count.py"),
        ("if true; then python train.py; fi", "train.py"),
        ("python 'train.py'", "train.py"),
        ("python \\\n  train.py", "train.py"),
        ("run() { python train.py; }", "train.py"),
        ("python ../train.py", "../train.py"),
    ],
)
def test_file_that_a_command_runs_is_told_with_its_line(line: str, file: str) -> None:
    assert missing(f"\n{line}\n") == [(3, file)]
    assert missing(f"\n{line}\n", file) == []
    assert missing(f"\n{line}\n", ANYTHING) == []


@pytest.mark.parametrize(
    "text",
    [
        "python -m train",
        "python -c 'import train'",
        "python - <<'END'\nexec(open('train.py').read())\nEND",
        "python $SCRIPT",
        'python "$SLURM_SUBMIT_DIR/train.py"',
        "python ~/train.py",
        "python /shared/train.py",
        "python train*.py",
        "bash -c 'python train.py'",
        "bash -lc 'python train.py'",
        "echo python train.py",
        "# python train.py",
        "true # don't: python train.py",
        "cat > train.py <<'END'\nprint('it''s')\nEND\npython train.py",
        "cat <<END > train.py\nx\nEND\npython train.py",
        "cat <<-END > ./train.py\n\tx\n\tEND\npython train.py",
        "echo 'print(1)' >train.py; python train.py",
        "printf x | tee train.py\npython train.py",
        "echo x > $FILE\npython train.py",
        "if [ -f train.py ]; then python train.py; fi",
        "[[ -e train.py ]] && python train.py",
        "git clone https://example.org/x.git x\npython x/train.py",
        "cd src\npython train.py",
        "cd src && python train.py",
        "(cd src; python train.py)",
        "pushd src >/dev/null\npython train.py",
        "cp /shared/train.py .\npython train.py",
        "tar xf /shared/code.tar\npython train.py",
        "wget -q https://example.org/train.py\npython train.py",
        "make\n./train",
        "eval $COMMAND\npython train.py",
        "x=$((N/2))\nargs=(data/a data/b)\ny=${#args[@]}",
        "for file in a/b c/d; do echo $file; done",
        "sed -e 's/a/b/' /etc/hosts",
        "python 'train.py",
        "module load cuda\nnvidia-smi\nmkdir -p out/a",
    ],
)
def test_nothing_is_said_where_the_file_may_be_there(text: str) -> None:
    assert missing(text) == []


def test_script_that_is_run_may_make_what_follows() -> None:
    assert missing("bash prepare.sh\npython train.py", "prepare.sh") == []
    assert missing("bash prepare.sh\npython train.py") == [(2, "prepare.sh")]
    assert missing("source venv/bin/activate\npython train.py") == [(2, "venv/bin/activate"), (3, "train.py")]
    hook = 'eval "$(conda shell.bash hook)"\nconda activate x\npython train.py'
    assert missing(hook) == [(4, "train.py")]
    assert missing("source ~/.bashrc\n. /etc/profile.d/modules.sh\npython train.py") == [(4, "train.py")]


def test_each_file_is_told_once_and_each_line_by_its_number() -> None:
    text = "python a.py\n\npython -c \"\nx = 'y'\n\"\npython b.py\npython a.py; python c.py"
    assert missing(text) == [(2, "a.py"), (7, "b.py"), (8, "c.py")]


def test_what_comes_along_is_known_by_file_and_by_folder() -> None:
    assert missing("python src/train.py", "src/train.py") == []
    assert missing("python src/train.py", "./src/train.py") == []
    assert missing("python src/train.py", "src/") == []
    assert missing("python src/deep/train.py", "src/") == []
    assert missing("python src", "src/__main__.py") == []
    assert missing("python src/train.py", "src/other.py") == [(2, "src/train.py")]
    assert missing("python src/train.py", "src") == [(2, "src/train.py")], "a file of this name is no folder"


def test_nothing_is_said_of_a_script_that_begins_elsewhere() -> None:
    assert missing("python train.py", head="#!/bin/bash\n#SBATCH --chdir=/shared/lab\n") == []


def test_very_long_script_is_not_looked_at_to_its_end() -> None:
    assert missing("true\n" * 1_000 + "python train.py\n") == [(1_002, "train.py")]
    assert missing("true\n" * MOST_SIGNS + "python train.py\n") == []


@given(st.text(st.sampled_from("ab'\"\\`$(){}<>|&;# \n\t=./-[]"), max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    for number, file in missing(text):
        assert 2 <= number <= text.count("\n") + 2
        assert file
