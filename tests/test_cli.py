"""The command line: what it prints, what it returns, and that no traceback reaches a user."""

import pytest

from weakform.cli import main


def test_demo(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "truth" in out
    assert "converged" in out
    picture = tmp_path / "goodwin.png"
    assert f"Picture: {picture}" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_problems(capsys):
    assert main(["problems"]) == 0
    assert "hindmarsh-rose" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--problem", "lornz"], "Did you mean 'lorenz'"),
        (["demo", "--noise", "-1"], "not negative"),
        (["demo", "--samples", "3"], "At least 7 steps"),
        (["demo", "--out", "/dev/null/nowhere"], "Not a directory"),
    ],
)
def test_errors_are_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["demo", "--samples", "many"]])
def test_usage(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage" in capsys.readouterr().err
