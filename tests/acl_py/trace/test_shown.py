"""What the engine of kernels is called where a person reads. Data says "cores" for every card."""

import json
import re
from collections import Counter

import pytest
from histories import busy

import acl_py
from acl_py.explain import Cause
from acl_py.explain.diff import Change
from acl_py.explain.profiler import AsyncProfiler
from acl_py.trace import chart, chrome, read_trace
from acl_py.trace.page.data import Run, document
from acl_py.trace.views.shown import has_sms, shown_for_all
from device_model import profile


def texts_of(device, folder):
    """What views of a program say in which two kernels want the whole card at once: by view, and the saved trace."""

    async def main():
        sim, stages = acl_py.current_simulation(), AsyncProfiler()
        for _ in range(2):
            stream = await acl_py.CreateStream()
            await acl_py.LaunchKernel(busy("whole", 100), sim.runtime.profile.cores.count, (), stream)
        await acl_py.SynchronizeDevice()
        return sim.report(), stages.report(), sim.trace

    report, stages, trace = acl_py.run(main, device=device)
    trace.save(folder / "trace.acl")
    chrome.write(trace, folder / "chrome.json")
    saved = read_trace(folder / "trace.acl")
    events = json.loads((folder / "chrome.json").read_text("utf-8"))["traceEvents"]
    page = document([Run.whole("", saved)], "")
    (run,) = page["runs"]
    return saved, {
        "chart": chart.lanes(saved),
        "chrome": "\n".join(each["args"]["name"] for each in events if each["name"] == "thread_name"),
        "page": "\n".join([page["causes"]["cores"], *(run["texts"][engine] for engine in run["engines"])]),
        "report": report,
        "stages": stages,
    }


@pytest.mark.parametrize(
    ("device", "word", "other"), [("h200", "SMs", "cores"), ("ascend910b3", "cores", "SMs"), ("tiny", "cores", "SMs")]
)
def test_cores_are_sms_where_cuda_is_meant(device, word, other, tmp_path):
    saved, texts = texts_of(device, tmp_path)
    assert {op.engine for op in saved.ops} == {"cores"}
    assert [view for view, text in texts.items() if re.search(rf"\b{word}\b", text)] == [
        "chart", "chrome", "page", "report", "stages",
    ]  # fmt: skip
    assert not [view for view, text in texts.items() if re.search(rf"\b{other}\b", text)]
    lanes = texts["chart"].splitlines()
    assert len({len(line) for line in lanes if line.endswith("%")}) == 1
    assert f"{word:<9} " in texts["chart"]


def test_a_figure_of_a_cuda_card_has_a_row_of_sms(tmp_path):
    pytest.importorskip("matplotlib", reason="pip install -e '.[notebooks]'")
    from acl_py.trace import figure

    saved, _ = texts_of("h200", tmp_path)
    assert "\n  SMs, from " in figure.describe({"two kernels": saved}, rows="engines")


def test_a_change_of_the_critical_path_of_a_cuda_card_names_sms():
    texts = [
        Change("a.py:1", "a.py:1", "k", Counter({Cause.CORES: 2_000}), (card, "cuda")).text for card in ("h200", "tiny")
    ]
    assert [text.split(": ")[-1].split()[0] for text in texts] == ["SMs", "cores"]


def test_the_word_for_cores_follows_from_the_profile_and_for_those_of_users_from_the_rules():
    assert [name for name in profile.names() if has_sms(name, profile.load(name).rules)] == ["h200"]
    assert has_sms("h200", "acl"), "the card, not the rules"
    assert (has_sms("my card", "cuda_per_thread"), has_sms("my card", "acl"), has_sms("", "")) == (True, False, False)
    assert (
        shown_for_all("full cores", [("tiny", "cuda"), ("h200", "cuda"), ("tiny", "cuda")]) == "full cores or full SMs"
    )
