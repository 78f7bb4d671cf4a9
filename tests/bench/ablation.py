"""What each mechanism of the model buys: the measured programs again, without it. `python -m tests.bench.ablation`

Mechanisms are profile values, so leaving one out is another profile.
"""

from dataclasses import replace as changed
from statistics import mean

from acl_py.programs.replay import replay
from device_model.profile import load
from tests.bench.measure import say, show
from tests.conformance.criteria import distribution, makespan_error, measured, program

MUCH = 1 << 40

# What is left out or replaced: the section of the profile, and the values.
VARIANTS = {
    "the model": ("queues", {}),
    "1 copy queue per direction": ("queues", {"copy": 1}),
    "2 copy queues per direction": ("queues", {"copy": 2}),
    "8 copy queues per direction": ("queues", {"copy": 8}),
    "a copy queue for each stream": ("queues", {"copy": 64}),
    "1 compute queue": ("queues", {"compute": 1}),
    "4 compute queues": ("queues", {"compute": 4}),
    "16 compute queues": ("queues", {"compute": 16}),
    "no latency between engines": ("latency", {"engines": 0}),
    "half of it": ("latency", {"engines": 2500}),
    "twice as much": ("latency", {"engines": 10000}),
    "no gaps between copies and kernels": (
        "latency",
        {"copy_gap": 0, "kernel_same_stream": 0, "kernel_other_stream": 0},
    ),
    "no latency of submission": ("latency", {"submit_kernel": 0, "submit_copy": 0}),
    "copies inside the device hold back no other work": ("latency", {"copy_on_device_tail": MUCH}),
    "no wake-up of the host": ("host", {"wake": 0}),
    "the first launch like all others": ("host", {"launch_first": 0}),
    "both directions at full speed": ("copies", {"duplex_h2d_permille": 0, "duplex_d2h_permille": 0}),
    "1 staging buffer": ("copies", {"stage_buffers": 1}),
    "4 staging buffers": ("copies", {"stage_buffers": 4}),
    "staging without limit": ("copies", {"stage_buffers": MUCH}),
}


def main():
    card = load("h200")
    documents = measured("timelines")
    programs = [program(document) for document in documents]
    rows = []
    for name, (section, values) in VARIANTS.items():
        profile = changed(card, **{section: changed(getattr(card, section), **values)})
        errors = [
            makespan_error(document, replay(each, device=profile))
            for document, each in zip(documents, programs, strict=True)
        ]
        worst = max(zip(errors, documents, strict=True), key=lambda pair: abs(pair[0]))[1]["id"]
        rows.append((name, *(f"{size:.2f}" for size in distribution(errors)), f"{mean(map(abs, errors)):.2f}", worst))
    show("Error of the makespan, %", ("model", "median", "p90", "max", "mean", "worst"), rows)
    say(f"{len(documents)} programs")


if __name__ == "__main__":
    main()
