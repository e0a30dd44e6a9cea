"""The server answers its own page and nobody else, refuses malformed requests in words, and cleans up at its end."""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from serve.conftest import Server


def ask(server, path, body=b"{}", method="POST", **headers):
    """Send a request; returns status, text and headers. The headers are those of the page unless others are given."""
    all_headers = {"Host": f"127.0.0.1:{server.port}", "X-Token": server.token} | {
        k.replace("_", "-"): v for k, v in headers.items()
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.putrequest(method, path, skip_host=True)
    for name, value in all_headers.items():
        if value is not None:
            connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
    finally:
        connection.close()


def upload_table(server, name, body):
    status, text, _ = ask(server, f"/api/table?name={name}", body)
    return status, json.loads(text)


def test_first_line_of_the_output_is_the_address(server):
    assert server.address.startswith("http://127.0.0.1:")
    assert len(server.token) >= 20


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Token": None},
        {"X_Token": "wrong"},
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_requests_without_token_or_of_other_origins_are_refused(server, headers):
    assert ask(server, "/api/words", **headers)[0] == 403


def test_requests_of_the_page_are_answered(server):
    assert ask(server, "/api/words")[0] == 200
    assert ask(server, "/api/words", Origin=f"http://127.0.0.1:{server.port}")[0] == 200
    assert ask(server, "/api/words", Host=f"localhost:{server.port}")[0] == 200
    # The token in a link is not enough for a task.
    assert ask(server, f"/api/words?token={server.token}", X_Token=None)[0] == 403


def test_page_needs_the_token_and_has_security_headers(server):
    assert ask(server, "/", method="GET", X_Token=None)[0] == 403
    status, text, headers = ask(server, f"/?token={server.token}", method="GET", X_Token=None)
    assert status == 200
    assert "<title>weakform</title>" in text
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "http://" not in text
    assert "https://" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/page/..%2f..%2fsupport%2fversions.py",
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/html.py",
        "/page//etc/passwd",
        "/etc/passwd",
    ],
)
def test_files_of_the_machine_cannot_be_read(server, path):
    status, text, _ = ask(server, path, method="GET")
    assert status in (403, 404, 405)
    assert "import" not in text
    assert "root:" not in text


def test_paths_in_upload_names_and_table_ids_are_ignored(server):
    status, answer = upload_table(server, "..%2F..%2F..%2Ftmp%2Fx.csv", b"t,x\n0,1\n1,2\n2,3\n")
    assert status == 200
    assert answer["file"] == "x.csv"
    for kind in ("export", "check", "rows", "sheet"):
        status, text, _ = ask(
            server, f"/api/{kind}", json.dumps({"table": "../../etc/passwd", "kind": "model"}).encode()
        )
        assert status == 422
        assert "table" in text


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("a.csv", b"", "header row"),
        ("a.csv", b"1,2\n3,4\n", "header"),
        ("a.csv", b"t,x\n1,2,3\n", "3 values for 2 columns"),
        ("a.csv", b"\x00\x01\x02", "text table"),
        ("a.xlsx", b"PK\x03\x04 no book", "cannot be read"),
        ("a.parquet", b"nonsense", "cannot be read"),
        ("a.csv.gz", b"nonsense", "a.csv.gz"),
        ("a.exe", b"MZ", "cannot be read as a table"),
    ],
)
def test_malformed_tables_are_refused_with_a_reason(server, name, body, expected):
    status, answer = upload_table(server, name, body)
    assert status == 422
    assert expected in answer["error"]
    assert "weakform-" not in answer["error"]  # the temporary folder is not shown


def test_nonsensical_requests_do_not_stop_the_server(server):
    for path in ("model", "solve", "fit", "compare", "open", "export", "gallery", "check", "rows"):
        for body in (b"", b"[]", b"null", b"{", b'{"setup": 3, "table": 7}', b"[" * 5000):
            status, text, _ = ask(server, f"/api/{path}", body)
            assert status in (200, 422), (path, body)
            assert "Traceback" not in text
    assert ask(server, "/api/fit/nothing", method="GET")[0] == 422
    assert ask(server, "/api/words")[0] == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("fit", {"setup": []}),
        ("compare", {"fits": [1, 2]}),
        ("solve", {"setup": {"equations": "x' = -k*x"}, "values": {"k": "zz"}}),
        ("open", {"weakform": "project", "setup": {"a": float("nan")}}),
        ("open", {"weakform": "project", "setup": 3}),
        ("open", {"weakform": "project", "setup": {}, "fits": [{"name": "a", "setup": {}, "saved": {}}]}),
        ("open", {"weakform": "project", "setup": {}, "table": {"name": "a.csv", "content": "%%%"}}),
        ("export", {"kind": "fit", "setup": {"equations": "x' = -k*x"}}),
    ],
)
def test_wrong_entries_in_requests_are_refused_in_words(server, path, body):
    table_id = upload_table(server, "a.csv", b"t,x\n0,1\n1,2\n2,3\n")[1]["table"]
    status, text, _ = ask(
        server, f"/api/{path}", json.dumps({**body, **({} if path == "open" else {"table": table_id})}).encode()
    )
    assert status in (200, 422)
    assert "Internal error" not in text
    assert "NaN" not in text


@pytest.mark.parametrize("key", ["missing", "inputs", "parameters", "sheet", "starts", "seed", "columns"])
def test_wrong_settings_are_refused_in_words(server, key):
    table_id = upload_table(server, "a.csv", b"t,x\n0,1\n1,2\n2,3\n")[1]["table"]
    for value in (5, [[1]], {"k": {"bounds": 5}}, {"k": {"bounds": [1, 2, 3]}}, 10**400, "x" * 500):
        setup = {"equations": "x' = -k*x", key: value}
        status, text, _ = ask(server, "/api/check", json.dumps({"setup": setup, "table": table_id}).encode())
        assert status in (200, 422)
        assert "Internal error" not in text, (key, value, text[:200])


def test_infinite_cell_is_listed_and_long_name_is_cut(server):
    status, answer = upload_table(server, "%E6%95%B0" * 95 + ".csv", b"t,x\n0,1\n1,inf\n2,3\n")
    assert status == 200
    assert "Row 2, x = inf is infinite" in answer["problems"][0]["text"]
    assert len(answer["file"].encode()) < 130


def test_spreadsheet_with_a_far_cell_is_refused(server, tmp_path):
    import zipfile

    import pandas as pd

    path = tmp_path / "b.xlsx"
    pd.DataFrame({"t": [0, 1], "x": [1, 2]}).to_excel(path, index=False)
    far_path = tmp_path / "far.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(far_path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename == "xl/worksheets/sheet1.xml":
                data = data.replace(
                    b"</sheetData>", b"<row r='1048576'><c r='XFD1048576'><v>1</v></c></row></sheetData>"
                )
            new.writestr(entry, data)
    status, answer = upload_table(server, "far.xlsx", far_path.read_bytes())
    assert status == 422
    assert "extends over" in answer["error"]


def test_too_large_request_is_refused(server):
    status, text, _ = ask(server, "/api/model", b'{"equations": "' + b"x" * 2_100_000 + b'"}')
    assert status == 422
    assert "at most 2 MB" in text


def test_port_in_use_is_reported(server):
    command = [*server.process.args, "--port", str(server.port)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 2
    assert f"Port {server.port} cannot be used" in process.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_server_leaves_no_processes_or_files(how):
    server = Server()
    try:
        assert ask(server, "/api/words")[0] == 200
        children = list_children(server.process.pid)
        assert len(children) >= 1
        before = set(Path(tempfile.gettempdir()).glob("weakform-*"))
        assert before
        _, err = server.end(how)
    finally:
        server.kill()
    assert "Traceback" not in err
    for _ in range(600):  # a busy machine takes its time to end processes
        if not [pid for pid in children if is_alive(pid)]:
            break
        time.sleep(0.1)
    assert not [pid for pid in children if is_alive(pid)]
    assert len(before - set(Path(tempfile.gettempdir()).glob("weakform-*"))) >= 1


def list_children(pid):
    processes = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in processes.stdout.split()]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().split(")")[1].split()[0] != "Z"
