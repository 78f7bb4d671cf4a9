"""What the corpus finds in files, and what becomes of a kernel that it loads."""

from device_model.ptx.text.parser import parse
from tests.ptx import sources, trying

PYTHON = '''
import cupy
code = r"""extern "C" __global__ void k(float *x) { x[0] = 1; }"""
scale = cupy.ElementwiseKernel("T x, raw float32 y", "T z", "z = x * y[0]", "scale")
text = "no kernel { }"
'''
CUDA = """
#include <stdio.h>
#include <cuda_fp16.h>
#define N \\
    16
std::vector<int> list;
__constant__ int table[N];
struct Pair { int a; int b; };
__device__ int twice(int x) { return 2 * x; }  // } not the end
template <typename T, int M> __global__ void k(T *x) { if (threadIdx.x < M) { x[0] = '}'; } }
int main() { k<float, 32><<<1, 1>>>(nullptr); return 0; }
"""
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
KERNEL = """.visible .entry k(.param .u64 x, .param .u32 n) {
    .reg .u64 %a; .reg .u32 %n; ld.param.u64 %a, [x]; cvta.to.global.u64 %a, %a; ld.param.u32 %n, [n]; BODY ret; }"""


def test_strings_with_kernels_and_elementwise_kernels_are_found_in_python_files():
    first, second = sorted(sources.python_sources(PYTHON), key=len)
    assert first == 'extern "C" __global__ void k(float *x) { x[0] = 1; }'
    assert "elementwise(float *x_all, float *y, float *z_all, int _n)" in second
    assert "float &x = x_all[i]; float &z = z_all[i]; z = x * y[0];" in second


def test_of_a_file_only_what_the_card_runs_is_kept():
    kept = sources.kernels_of(sources.without_host_headers(CUDA))
    assert [each for each in ("stdio", "main", "std::") if each in kept] == []
    for part in ("cuda_fp16.h", "16", "table[N]", "struct Pair", "int twice", "x[0] = '}'; } }"):
        assert part in kept
    assert sources.instances(CUDA) == ["k<float, 32>"]


def test_a_kernel_runs_or_is_stopped_or_refused():
    def outcome(body):
        return trying.outcome_of(parse(HEAD + KERNEL.replace("BODY", body)), "k")

    assert outcome("st.global.u32 [%a], %n;") == ("ran", "", ((64, 1, 1), [None, bytes([32, 0, 0, 0])]))
    assert outcome("st.global.u32 [0], %n;")[0] == "stopped"
    what, why, _ = outcome("wgmma.fence.sync.aligned;")
    assert (what, why.partition(" ")[0]) == ("refused", "wgmma.fence.sync.aligned")


def test_made_up_arguments_follow_from_how_the_kernel_uses_its_parameters():
    def ran(body, directive=""):
        text = HEAD + KERNEL.replace("cvta.to.global.u64 %a, %a;", "").replace(") {", f") {directive} {{", 1)
        outcome, _, given = trying.outcome_of(parse(text.replace("BODY", body)), "k")
        return outcome, given

    plain = [None, bytes([32, 0, 0, 0])]
    assert ran("add.u64 %a, %a, 8; st.u32 [%a], %n;") == ("ran", ((64, 1, 1), plain))
    assert ran("st.u32 [%a], %n;", ".maxntid 256") == ("ran", ((256, 1, 1), plain))
    all_threads = ".reg .pred %p; setp.lt.u32 %p, %n, 64; @%p trap; st.u32 [%a], %n;"
    assert ran(all_threads) == ("ran", ((32, 1, 1), [None, bytes([64, 0, 0, 0])]))
    grid_barrier = """
        .reg .u32 %h; mov.u32 %n, %envreg2; mov.u32 %h, %envreg1; mov.b64 %a, {%n, %h};
        atom.global.add.u32 %n, [%a+4], 1;"""
    assert ran(grid_barrier)[0] == "ran"


def test_kernels_of_a_module_share_its_variables():
    """The second one goes through a pointer that the first one has kept."""
    both = """.global .u64 kept;
        .visible .entry keep(.param .u64 x) { .reg .u64 %a; ld.param.u64 %a, [x]; st.global.u64 [kept], %a; ret; }
        .visible .entry use() { .reg .u64 %a; ld.global.u64 %a, [kept]; st.u32 [%a], 1; ret; }"""
    module = parse(HEAD + both)
    held = trying.variables_of(module)
    assert trying.outcome_of(module, "use")[0] == "stopped"
    assert [trying.outcome_in(module, name, held)[0] for name in ("use", "keep", "use")] == ["stopped", "ran", "ran"]
