"""The command `weakform batch`: one model fitted to many datasets, from a file of curves to a file of estimates."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.errors import DataError, ModelError
from . import command_arguments

if TYPE_CHECKING:
    from ..files.batch_data import BatchData
    from ..files.model_file import ModelFile


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `weakform batch`."""
    from ..noise.kinds import KINDS

    parser.add_argument(
        "model", metavar="MODEL", help="a file with the equations: text, TOML (see weakform new), SBML or Antimony"
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="the curves: .npy, .npz, .nc, .parquet, .nii.gz, or .csv with one row for each dataset and the times as "
        "the names of the columns",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the results: .nc, .npz, .csv, .parquet, or .nii.gz for one image for each parameter",
    )
    parser.add_argument(
        "--times",
        metavar="TIMES",
        help="times of the samples, if the data have none: a file (.npy, or a table with a column time), or "
        "begin:end:step such as 0:10:0.5, with both ends",
    )
    parser.add_argument(
        "--names",
        metavar="NAMES",
        help="states and named expressions that are measured, in the order of the columns, separated by commas "
        "(default: names in the data, under [columns] of the model file, or all states)",
    )
    parser.add_argument(
        "--inputs",
        action="append",
        default=[],
        metavar="NAME[=FILE]",
        help="a name in the equations that is an input with known values, in the data or in a file: a table with the "
        "columns time and NAME, or .npy at the times of the samples; may be repeated",
    )
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        metavar="'NAME = EXPRESSION'",
        help="a measured column as an expression of states and parameters; may be repeated",
    )
    parser.add_argument("--noise", choices=tuple(KINDS), help="kind of noise, in place of that in the model file")
    parser.add_argument(
        "--mask", metavar="FILE", help="fit only the datasets where this array (.npy, .nii, .nii.gz) is not zero"
    )
    command_arguments.add_dose_options(parser)
    command_arguments.add_parameter_options(parser)
    parser.set_defaults(random=[])
    parser.add_argument("--seed", type=int, default=0, help="seed of the random starts (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="number of threads on this machine (default: one for each core)"
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="send the fits to the Dask scheduler at this address")
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep the finished results in this file (.npz); the same command continues from it",
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only; the exit code reports the outcome")


def run_batch(args: argparse.Namespace) -> int:
    """Fit a model file to each of many datasets, print a summary, and write the results."""
    from ..experiments.batch import fit_batch
    from ..files.batch_archive import check_output, save_batch
    from ..files.batch_reader import BatchOptions, read_batch_data, read_doses, restore_shape

    if args.into is not None and args.doses is None:
        raise DataError(
            f"--into {args.into} names the state that receives doses, but no doses are given; give the table with "
            "--doses FILE."
        )
    _check_distinct(args)
    if args.out is not None:
        check_output(args.out)
    file, sources = _read_model_with_inputs(args)
    names = None if args.names is None else tuple(name.strip() for name in args.names.split(","))
    data = read_batch_data(file, args.data, BatchOptions(args.times, names, sources, args.mask))
    assert data.times is not None
    arguments = command_arguments.build_fit_arguments(file, args)
    batch = fit_batch(
        file.model,
        data.times,
        data.values,
        names=data.names,
        noise=[args.noise or file.noise.get(name, "gaussian") for name in data.names],
        sigma=data.sigma,
        weights=data.weights,
        inputs=data.inputs,
        hold=file.hold,
        doses=None if args.doses is None else read_doses(data, args.doses, args.into),
        frames=None if data.frames is None else (data.frames[:, 0], data.frames[:, 1]),
        parameters=arguments["parameters"],
        seed=args.seed,
        workers=args.workers,
        scheduler=args.dask,
        checkpoint=args.checkpoint,
    )
    batch = replace(batch, notes=(*data.notes, *batch.notes))
    if not args.quiet:
        print(batch, flush=True)
    if args.out is not None:
        path = save_batch(restore_shape(batch, data), args.out, data.affine)
        if not args.quiet:
            print(f"\nWrote {_describe_output(path, data)}")
    if batch.interrupted:
        kept = f" The finished fits are in {args.out}." if args.out is not None else ""
        resume = f" Run the same command again to continue from {args.checkpoint}." if args.checkpoint else ""
        print(f"weakform: interrupted.{kept}{resume}", file=sys.stderr)
        return 130
    return 0 if batch.success.any() else 1


def _check_distinct(args: argparse.Namespace) -> None:
    """Refuse an output or a checkpoint that would replace the data or each other."""
    paths = {"the data": args.data, "--out": args.out, "--checkpoint": args.checkpoint}
    labels: dict[Path, str] = {}
    for label, path in paths.items():
        if path is None:
            continue
        place = Path(path).resolve()
        if place in labels:
            raise DataError(f"{label} and {labels[place]} are the same file, {path}, which would be replaced.")
        labels[place] = label


def _read_model_with_inputs(args: argparse.Namespace) -> tuple[ModelFile, dict[str, str]]:
    """Read the model file, and return it with the file of each input that has one."""
    words = [part.strip() for word in args.inputs for part in word.split(",")]
    pairs = [(name.strip(), source.strip()) for name, _, source in (word.partition("=") for word in words)]
    for word, (name, source) in zip(words, pairs, strict=True):
        if not name or ("=" in word and not source):
            raise ModelError(f"--inputs takes a name, or NAME=FILE, such as ca=aif.csv; received {word!r}.")
    names = [name for name, _ in pairs]
    declared = argparse.Namespace(**{**vars(args), "inputs": []})
    file = command_arguments.read_model_file(declared)
    # An input that the model file declares needs no second declaration, which only equations as text allow.
    new = [name for name in names if name not in file.model.inputs]
    if new:
        file = command_arguments.read_model_file(argparse.Namespace(**{**vars(args), "inputs": new}))
    return file, {name: source for name, source in pairs if source}


def _describe_output(path: Any, data: BatchData) -> str:
    """Return the name of the file that was written, and what the mask left out."""
    is_image = str(path).lower().endswith((".nii", ".nii.gz"))
    text = f"{path} and one image for each other quantity beside it" if is_image else str(path)
    if data.mask is None:
        return text
    return f"{text}; {int(data.mask.sum()):,} of {data.mask.size:,} datasets are in the mask"
