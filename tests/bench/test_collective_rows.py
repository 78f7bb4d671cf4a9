"""The times of collectives against those of H200s and, from their documentation, of eight H100s."""

import json
from pathlib import Path

import pytest

from tests.bench import collective_speed
from tests.bench.collectives import error, groups_of, hosts_of, main, overlaps, predicted
from tests.conformance.criteria import distribution

FILE = Path(__file__).parents[1] / "conformance" / "data" / "collectives.json"
MEASURED = json.loads(FILE.read_text(encoding="utf-8"))


def without_large_programs():
    """The file without what moves 64 MiB."""
    parts = {name: part for name, part in MEASURED.items() if isinstance(part, dict)}
    return {name: {key: part[key] for key in ("sweep", "algos")} for name, part in parts.items()}


def off_limits(rows):
    """The groups whose errors are larger than they may be."""
    found = {name: distribution([error(row) for row in own])[:2] for name, own, _, _ in groups_of(rows) if own}
    limits = {name: (middle, high) for name, _, middle, high in groups_of(rows)}
    return {
        name: errors for name, errors in found.items() if any(a > b for a, b in zip(errors, limits[name], strict=True))
    }


def test_collectives_take_as_long_as_on_the_card():
    rows = predicted(without_large_programs())
    assert len(rows) == 64 + 122 + 2 * 42
    assert off_limits(rows) == {}


@pytest.mark.slow
def test_beside_kernels_they_take_as_long_as_on_the_card():
    rows = [row for name in ("two", "four") for row in overlaps(name, MEASURED[name])]
    assert len(rows) == 16
    assert off_limits(rows) == {}


def test_a_ring_of_eight_without_multicast_gets_370_gb_per_second_of_each_link():
    rows = [{"kind": "all_reduce", "ranks": 8, "bytes": 1 << bits, "busbw": 370} for bits in (30, 32, 34)]
    assert [abs(error(row)) < 10 for row in predicted({"eight": {"sweep": rows}})] == [True, True, True]


def test_the_host_is_read_off_the_small_rows_of_its_kind_and_ranks():
    rows = [
        {"kind": "broadcast", "ranks": 2, "bytes": 8, "us": 20, "host_us": 19, "alone_us": 31},
        {"kind": "broadcast", "ranks": 2, "bytes": 16, "us": 22, "host_us": 20, "alone_us": 33},
        {"kind": "broadcast", "ranks": 2, "bytes": 1 << 30, "us": 3_000, "host_us": 20, "alone_us": 3_020},
        {"kind": "broadcast", "ranks": 4, "bytes": 1 << 20, "us": 40, "host_us": 39},
    ]
    assert hosts_of(rows) == {("broadcast", 2): 21, ("broadcast", 4): 39}
    first, _, large, last = predicted({"two": {"sweep": rows}, "what": "a text"})
    assert (first["predicted"], last["predicted"], "alone_predicted" in last) == (21, 39, False)
    assert large["predicted"] == large["device"]
    # A call and a synchronisation: the small rows take 32 us, of which the synchronisation is a part of its own.
    assert first["alone_predicted"] == pytest.approx(32, abs=0.001)
    assert large["alone_predicted"] == pytest.approx(32 - first["device"] + large["device"], abs=0.01)


def test_the_command_prints_rows_and_groups_and_writes_the_rows(tmp_path, capsys):
    row = {"kind": "all_gather", "ranks": 3, "bytes": 1 << 28, "us": 1_000}
    (tmp_path / "some.json").write_text(json.dumps({"three": {"sweep": [row]}}), encoding="utf-8")
    main([str(tmp_path / "some.json"), "--json", str(tmp_path / "out.json")])
    [written] = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert written == row | {
        "part": "three", "set": "sweep", "measured": 1_000, "device": written["device"],
        "predicted": written["device"],
    }  # fmt: skip
    assert "32 MiB and more, more ranks" in capsys.readouterr().out


def test_the_speed_of_parts_needs_no_file(monkeypatch, capsys):
    monkeypatch.setattr(collective_speed, "PARTS", 64)
    monkeypatch.setattr(collective_speed, "RUNS", 1)
    monkeypatch.setattr(collective_speed, "SIMPY_OPS", 240)
    monkeypatch.setattr(collective_speed, "DEVICES", 9)
    main(["--speed"])
    shown = capsys.readouterr().out
    assert "AllReduce of 4 KiB" in shown
    assert shown.count("(target: at most") == 3  # 8 ranks, 64 ranks, the start
    assert "start of 9 devices" in shown
    with pytest.raises(SystemExit):
        main([])
    assert "name a FILE, or ask for --speed" in capsys.readouterr().err
