"""Kernels in CUDA C whose PTX is kept in data/: right ones, and ones with a mistake that was put in.

`python corpus.py right` and `python corpus.py wrong` print the sources. A compiler makes data/right.ptx and
data/wrong.ptx of them, for sm_90, with line information; comments are left out. A wrong kernel is a right one with one
place changed.
"""

import sys
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent / "data"


class Right(NamedTuple):
    """A kernel: TT in its source stands for each of *types*. Arguments are sizes of arrays of TT or int ("i"), and
    numbers."""

    name: str
    source: str
    args: tuple
    grid: tuple = (3, 1, 1)
    block: tuple = (128, 1, 1)
    types: str = "float int"
    shared: int = 0


class Wrong(NamedTuple):
    """A mistake in the kernel *name*: *old* becomes *new*, and the line with *line* is named by a finding *rule*, or by
    an error that says *rule*."""

    kind: str
    name: str
    old: str
    new: str
    line: str
    rule: str


def arrays(*sizes):
    return tuple(("TT", size) for size in sizes)


RIGHT = [
    Right(
        "copy",
        """
(TT* y, const TT* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}""",
        (*arrays(384, 384), 350),
        types="float int double short char",
    ),
    Right(
        "axpy",
        """
(TT* y, const TT* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] * (TT)3 + y[i];
}""",
        (*arrays(1000, 1000), 1000),
        types="float int double short",
    ),
    Right(
        "reverse",
        """
(TT* y, const TT* x) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    int base = blockIdx.x * 128;
    s[t] = x[base + t];
    __syncthreads();
    y[base + t] = s[127 - t];
}""",
        arrays(384, 384),
        types="float int double short char",
    ),
    Right(
        "reduce",
        """
(TT* y, const TT* x) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads(); // first
    for (int d = 64; d > 0; d >>= 1) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads(); // round
    }
    if (t == 0)
        y[blockIdx.x] = s[0];
}""",
        arrays(3, 384),
        types="float int double",
    ),
    Right(
        "warpsum",
        """
(TT* y, const TT* x) {
    int t = threadIdx.x;
    TT v = x[blockIdx.x * 128 + t];
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d);
    if (t % 32 == 0)
        y[blockIdx.x * 4 + t / 32] = v;
}""",
        arrays(12, 384),
        types="float int double",
    ),
    Right(
        "blocksum",
        """
(TT* y, const TT* x) {
    __shared__ TT part[4];
    int t = threadIdx.x;
    TT v = x[blockIdx.x * 128 + t];
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, d);
    if (t % 32 == 0)
        part[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 4 ? part[t] : (TT)0;
        for (int d = 2; d > 0; d >>= 1)
            v += __shfl_down_sync(0xffffffff, v, d);
        if (t == 0)
            y[blockIdx.x] = v;
    }
}""",
        arrays(3, 384),
        types="float int double",
    ),
    Right(
        "warpshared",
        """
(TT* y, const TT* x) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    int lane = t % 32;
    s[t] = x[blockIdx.x * 128 + t];
    __syncwarp(); // first
    for (int d = 16; d > 0; d >>= 1) {
        TT v = (TT)0;
        if (lane < d)
            v = s[t + d];
        __syncwarp(); // read
        if (lane < d)
            s[t] += v;
        __syncwarp(); // written
    }
    if (lane == 0)
        y[blockIdx.x * 4 + t / 32] = s[t];
}""",
        arrays(12, 384),
        types="float int double",
    ),
    Right(
        "scan",
        """
(TT* y, const TT* x) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads(); // first
    for (int d = 1; d < 128; d *= 2) {
        TT v = (TT)0;
        if (t >= d)
            v = s[t - d];
        __syncthreads(); // read
        s[t] += v;
        __syncthreads(); // written
    }
    y[blockIdx.x * 128 + t] = s[t];
}""",
        arrays(384, 384),
        types="float int double",
    ),
    Right(
        "scan2",
        """
(TT* y, const TT* x) {
    __shared__ TT a[128];
    __shared__ TT b[128];
    int t = threadIdx.x;
    TT* from = a;
    TT* to = b;
    a[t] = x[blockIdx.x * 128 + t];
    __syncthreads(); // first
    for (int d = 1; d < 128; d *= 2) {
        to[t] = t >= d ? from[t] + from[t - d] : from[t];
        __syncthreads(); // round
        TT* other = from;
        from = to;
        to = other;
    }
    y[blockIdx.x * 128 + t] = from[t];
}""",
        arrays(384, 384),
        types="float int",
    ),
    Right(
        "blelloch",
        """
(TT* y, const TT* x) {
    __shared__ TT s[256];
    int t = threadIdx.x;
    s[2 * t] = x[blockIdx.x * 256 + 2 * t];
    s[2 * t + 1] = x[blockIdx.x * 256 + 2 * t + 1];
    int offset = 1;
    for (int d = 128; d > 0; d >>= 1) {
        __syncthreads(); // up
        if (t < d)
            s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        s[255] = (TT)0;
    for (int d = 1; d < 256; d *= 2) {
        offset >>= 1;
        __syncthreads(); // down
        if (t < d) {
            TT v = s[offset * (2 * t + 1) - 1];
            s[offset * (2 * t + 1) - 1] = s[offset * (2 * t + 2) - 1];
            s[offset * (2 * t + 2) - 1] += v;
        }
    }
    __syncthreads(); // last
    y[blockIdx.x * 256 + 2 * t] = s[2 * t];
    y[blockIdx.x * 256 + 2 * t + 1] = s[2 * t + 1];
}""",
        arrays(768, 768),
        types="float int",
    ),
    Right(
        "transpose",
        """
(TT* y, const TT* x, int n) {
    __shared__ TT tile[16][17];
    int i = blockIdx.x * 16 + threadIdx.x;
    int j = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = x[j * n + i];
    __syncthreads();
    i = blockIdx.y * 16 + threadIdx.x;
    j = blockIdx.x * 16 + threadIdx.y;
    y[j * n + i] = tile[threadIdx.x][threadIdx.y];
}""",
        (*arrays(1024, 1024), 32),
        (2, 2, 1),
        (16, 16, 1),
        "float int double short",
    ),
    Right(
        "matmul",
        """
(TT* c, const TT* a, const TT* b, int n) {
    __shared__ TT as[8][8];
    __shared__ TT bs[8][8];
    int x = threadIdx.x;
    int y = threadIdx.y;
    int row = blockIdx.y * 8 + y;
    int col = blockIdx.x * 8 + x;
    TT sum = (TT)0;
    for (int k = 0; k < n; k += 8) {
        as[y][x] = a[row * n + k + x];
        bs[y][x] = b[(k + y) * n + col];
        __syncthreads(); // filled
        for (int j = 0; j < 8; j++)
            sum += as[y][j] * bs[j][x];
        __syncthreads(); // used
    }
    c[row * n + col] = sum;
}""",
        (*arrays(1024, 1024, 1024), 32),
        (4, 4, 1),
        (8, 8, 1),
        "float int double",
    ),
    Right(
        "doublebuffer",
        """
(TT* c, const TT* a, const TT* b, int n) {
    __shared__ TT as[2][8][8];
    __shared__ TT bs[2][8][8];
    int x = threadIdx.x;
    int y = threadIdx.y;
    int row = blockIdx.y * 8 + y;
    int col = blockIdx.x * 8 + x;
    TT sum = (TT)0;
    int now = 0;
    as[0][y][x] = a[row * n + x];
    bs[0][y][x] = b[y * n + col];
    __syncthreads(); // first
    for (int k = 8; k <= n; k += 8) {
        if (k < n) {
            as[1 - now][y][x] = a[row * n + k + x];
            bs[1 - now][y][x] = b[(k + y) * n + col];
        }
        for (int j = 0; j < 8; j++)
            sum += as[now][y][j] * bs[now][j][x];
        __syncthreads(); // round
        now = 1 - now;
    }
    c[row * n + col] = sum;
}""",
        (*arrays(1024, 1024, 1024), 32),
        (4, 4, 1),
        (8, 8, 1),
        "float int double",
    ),
    Right(
        "stencil",
        """
(TT* y, const TT* x) {
    __shared__ TT s[130];
    int t = threadIdx.x;
    int i = blockIdx.x * 128 + t;
    s[t + 1] = x[i + 1];
    if (t == 0)
        s[0] = x[i];
    if (t == 127)
        s[129] = x[i + 2];
    __syncthreads();
    y[i] = s[t] + s[t + 1] + s[t + 2];
}""",
        arrays(384, 386),
        types="float int double short",
    ),
    Right(
        "stencil2d",
        """
(TT* y, const TT* x, int n) {
    __shared__ TT s[10][10];
    int a = threadIdx.x;
    int b = threadIdx.y;
    int i = blockIdx.x * 8 + a;
    int j = blockIdx.y * 8 + b;
    for (int k = b * 8 + a; k < 100; k += 64)
        s[k / 10][k % 10] = x[(blockIdx.y * 8 + k / 10) * n + blockIdx.x * 8 + k % 10];
    __syncthreads();
    y[j * n + i] = s[b][a + 1] + s[b + 1][a] + s[b + 1][a + 2] + s[b + 2][a + 1] - s[b + 1][a + 1];
}""",
        (*arrays(400, 400), 18),
        (2, 2, 1),
        (8, 8, 1),
        "float int",
    ),
    Right(
        "jacobi",
        """
(TT* y, const TT* x) {
    __shared__ TT s[130];
    int t = threadIdx.x;
    s[t + 1] = x[blockIdx.x * 128 + t];
    if (t < 2)
        s[t * 129] = (TT)0;
    __syncthreads(); // first
    for (int k = 0; k < 4; k++) {
        TT v = s[t] + s[t + 2];
        __syncthreads(); // read
        s[t + 1] = v;
        __syncthreads(); // written
    }
    y[blockIdx.x * 128 + t] = s[t + 1];
}""",
        arrays(384, 384),
        types="float int",
    ),
    Right(
        "histogram",
        """
(int* y, const TT* x, int n) {
    __shared__ int bins[64];
    int t = threadIdx.x;
    if (t < 64)
        bins[t] = 0;
    __syncthreads(); // zero
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128)
        atomicAdd(&bins[(int)x[i] & 63], 1);
    __syncthreads(); // full
    if (t < 64)
        atomicAdd(&y[t], bins[t]);
}""",
        (("i", 64), ("TT", 1000), 1000),
        types="int short char",
    ),
    Right(
        "globalhistogram",
        """
(int* y, const TT* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&y[(int)x[i] & 15], 1);
}""",
        (("i", 16), ("TT", 384), 380),
        types="int short",
    ),
    Right(
        "dot",
        """
(TT* y, const TT* a, const TT* b, int n) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    TT v = (TT)0;
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128)
        v += a[i] * b[i];
    s[t] = v;
    __syncthreads(); // first
    for (int d = 64; d >= 32; d >>= 1) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads(); // round
    }
    if (t < 32) {
        v = s[t];
        for (int d = 16; d > 0; d >>= 1)
            v += __shfl_down_sync(0xffffffff, v, d);
        if (t == 0)
            atomicAdd(y, v);
    }
}""",
        (*arrays(1, 1000, 1000), 1000),
        types="float int",
    ),
    Right(
        "lastblock",
        """
(TT* y, TT* part, const TT* x, unsigned* ticket) {
    __shared__ TT s[128];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads(); // first
    for (int d = 64; d > 0; d >>= 1) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads(); // round
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads(); // last
    if (last && t == 0) {
        TT sum = (TT)0;
        for (int i = 0; i < gridDim.x; i++)
            sum += part[i];
        y[0] = sum;
    }
}""",
        (*arrays(1, 3, 384), ("z", 1)),
        types="float int double",
    ),
    Right(
        "lock",
        """
(TT* y, int* mutex) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(mutex, 0, 1) != 0) {}
        __threadfence();
        y[0] = y[0] + (TT)1;
        __threadfence();
        atomicExch(mutex, 0);
    }
}""",
        (*arrays(1), ("z", 1)),
        types="float int",
    ),
    Right(
        "flag",
        """
(TT* y, const TT* x, int* ready) {
    int i = threadIdx.x;
    if (blockIdx.x == 0) {
        y[i] = x[i] * (TT)2;
        __threadfence();
        __syncthreads();
        if (i == 0)
            *(volatile int*)ready = 1;
    } else {
        if (i == 0)
            while (*(volatile int*)ready == 0) {}
        __syncthreads();
        __threadfence();
        y[blockIdx.x * 128 + i] = y[i] + (TT)1;
    }
}""",
        (*arrays(384, 128), ("z", 1)),
        types="float int",
    ),
    Right(
        "gridbarrier",
        """
(TT* y, TT* z, unsigned* count) {
    int i = blockIdx.x * 128 + threadIdx.x;
    y[i] = (TT)i;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (*(volatile unsigned*)count < gridDim.x) {}
    }
    __syncthreads();
    z[i] = y[gridDim.x * 128 - 1 - i];
}""",
        (*arrays(384, 384), ("z", 1)),
        types="float int",
    ),
    Right(
        "dynamic",
        """
(TT* y, const TT* x, int n) {
    extern __shared__ char memory[];
    TT* a = (TT*)memory;
    TT* b = a + n;
    int t = threadIdx.x;
    a[t] = x[blockIdx.x * n + t];
    b[n - 1 - t] = x[blockIdx.x * n + t];
    __syncthreads();
    y[blockIdx.x * n + t] = a[n - 1 - t] + b[t];
}""",
        (*arrays(384, 384), 128),
        types="float int",
        shared=1024,
    ),
    Right(
        "locals",
        """
(TT* y, const TT* x, int k) {
    TT v[8];
    int i = blockIdx.x * 128 + threadIdx.x;
    for (int j = 0; j < 8; j++)
        v[j] = x[i] + (TT)j;
    v[(k + i) & 7] = (TT)9;
    y[i] = v[i & 7] + v[k & 7];
}""",
        (*arrays(384, 384), 3),
        types="float int double",
    ),
    Right(
        "tiles16",
        """
(TT* y, const TT* x) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    int lane = t % 16;
    unsigned mask = t % 32 < 16 ? 0x0000ffff : 0xffff0000;
    s[t] = x[blockIdx.x * 128 + t];
    __syncwarp(mask); // first
    for (int d = 8; d > 0; d >>= 1) {
        if (lane < d)
            s[t] += s[t + d];
        __syncwarp(mask); // round
    }
    if (lane == 0)
        y[blockIdx.x * 8 + t / 16] = s[t];
}""",
        arrays(24, 384),
        types="float int",
    ),
    Right(
        "compact",
        """
(int* y, int* total, const TT* x, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    int lane = threadIdx.x % 32;
    bool keep = i < n && x[i] > (TT)3;
    unsigned votes = __ballot_sync(0xffffffff, keep);
    int base = 0;
    if (lane == 0)
        base = atomicAdd(total, __popc(votes));
    base = __shfl_sync(0xffffffff, base, 0);
    if (keep)
        y[base + __popc(votes & ((1u << lane) - 1))] = i;
}""",
        (("i", 384), ("z", 1), ("TT", 384), 380),
        types="float int",
    ),
    Right(
        "producer",
        """
(TT* y, const TT* x) {
    __shared__ TT s[64];
    int t = threadIdx.x;
    for (int k = 0; k < 3; k++) {
        if (t < 64) {
            s[t] = x[k * 64 + t];
            asm volatile("bar.arrive 1, 128;" ::: "memory");
            asm volatile("bar.sync 2, 128;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            y[(blockIdx.x * 3 + k) * 64 + t - 64] = s[127 - t];
            asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
    }
}""",
        arrays(576, 192),
        types="float int",
    ),
    Right(
        "bitonic",
        """
(TT* y, const TT* x) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads(); // first
    for (int k = 2; k <= 128; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            int o = t ^ j;
            if (o > t) {
                TT a = s[t];
                TT b = s[o];
                if (((t & k) == 0) == (a > b)) {
                    s[t] = b;
                    s[o] = a;
                }
            }
            __syncthreads(); // round
        }
    y[blockIdx.x * 128 + t] = s[t];
}""",
        arrays(384, 384),
        types="float int",
    ),
    Right(
        "rowsum",
        """
(TT* y, const TT* x, int n) {
    __shared__ TT s[4];
    int t = threadIdx.x;
    int warp = t / 32;
    TT v = (TT)0;
    for (int i = t; i < n; i += 128)
        v += x[blockIdx.x * n + i];
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d);
    if (t % 32 == 0)
        s[warp] = v;
    __syncthreads();
    if (t == 0)
        y[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
}""",
        (*arrays(3, 900), 300),
        types="float int double",
    ),
    Right(
        "softmax",
        """
(TT* y, const TT* x, int n) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    TT top = (TT)-1e30;
    for (int i = t; i < n; i += 128)
        top = max(top, x[blockIdx.x * n + i]);
    s[t] = top;
    __syncthreads(); // tops
    for (int d = 64; d > 0; d >>= 1) {
        if (t < d)
            s[t] = max(s[t], s[t + d]);
        __syncthreads(); // top
    }
    top = s[0];
    __syncthreads(); // between
    TT sum = (TT)0;
    for (int i = t; i < n; i += 128)
        sum += x[blockIdx.x * n + i] - top;
    s[t] = sum;
    __syncthreads(); // sums
    for (int d = 64; d > 0; d >>= 1) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads(); // sum
    }
    for (int i = t; i < n; i += 128)
        y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - top) / s[0];
}""",
        (*arrays(900, 900), 300),
        types="float double",
    ),
    Right(
        "nbody",
        """
(float4* a, const float4* p, int n) {
    __shared__ float4 s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 own = p[i];
    float4 sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < n; k += 64) {
        s[threadIdx.x] = p[k + threadIdx.x];
        __syncthreads(); // filled
        for (int j = 0; j < 64; j++) {
            float dx = s[j].x - own.x, dy = s[j].y - own.y, dz = s[j].z - own.z;
            float w = s[j].w / (dx * dx + dy * dy + dz * dz + 1.0f);
            sum.x += dx * w;
            sum.y += dy * w;
            sum.z += dz * w;
        }
        __syncthreads(); // used
    }
    a[i] = sum;
}""",
        (("f", 512), ("f", 512), 128),
        (2, 1, 1),
        (64, 1, 1),
        "float",
    ),
    Right(
        "argmax",
        """
(int* y, const TT* x) {
    __shared__ TT s[128];
    __shared__ int at[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    at[t] = t;
    __syncthreads(); // first
    for (int d = 64; d > 0; d >>= 1) {
        if (t < d && s[t + d] > s[t]) {
            s[t] = s[t + d];
            at[t] = at[t + d];
        }
        __syncthreads(); // round
    }
    if (t == 0)
        y[blockIdx.x] = at[0];
}""",
        (("i", 3), ("TT", 384)),
        types="float int double",
    ),
    Right(
        "bytes",
        """
(unsigned char* y, const unsigned char* x) {
    __shared__ unsigned char s[256];
    int t = threadIdx.x;
    s[2 * t] = x[blockIdx.x * 256 + 2 * t];
    s[2 * t + 1] = 255 - x[blockIdx.x * 256 + 2 * t + 1];
    __syncthreads();
    y[blockIdx.x * 256 + t] = s[255 - t];
    y[blockIdx.x * 256 + 128 + t] = s[t];
}""",
        (("b", 768), ("b", 768)),
        types="char",
    ),
    Right(
        "table",
        """
(TT* y, const TT* x) {
    __shared__ TT factors[4];
    __shared__ TT s[128];
    int t = threadIdx.x;
    if (t < 4)
        factors[t] = (TT)(t + 1);
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    y[blockIdx.x * 128 + t] = s[t ^ 1] * factors[t & 3];
}""",
        arrays(384, 384),
        types="float int double",
    ),
    Right(
        "anyflag",
        """
(int* y, const TT* x) {
    __shared__ int found;
    int t = threadIdx.x;
    if (t == 0)
        found = 0;
    __syncthreads(); // zero
    if (x[blockIdx.x * 128 + t] > (TT)2)
        found = 1;
    __syncthreads(); // full
    if (t == 0)
        y[blockIdx.x] = found;
}""",
        (("i", 3), ("TT", 384)),
        types="float int",
    ),
    Right(
        "early",
        """
(TT* y, const TT* x, int n) {
    __shared__ TT s[128];
    int t = threadIdx.x;
    int i = blockIdx.x * 128 + t;
    if (i >= n)
        return;
    s[t] = x[i];
    __syncthreads();
    y[i] = s[t ^ 1];
}""",
        (*arrays(384, 384), 350),
        types="float int double",
    ),
    Right(
        "votes",
        """
(TT* y, const TT* x) {
    int t = threadIdx.x;
    TT v = x[blockIdx.x * 128 + t];
    if (__any_sync(0xffffffff, v > (TT)5))
        v += (TT)1;
    unsigned low = __ballot_sync(0xffffffff, t % 2 == 0);
    if (t % 2 == 0)
        v += __shfl_xor_sync(low, v, 2);
    y[blockIdx.x * 128 + t] = v + (TT)__syncthreads_count(v > (TT)3);
}""",
        arrays(384, 384),
        types="float int",
    ),
    Right(
        "ticket",
        """
(TT* y, TT* part, const TT* x, unsigned* ticket) {
    __shared__ bool last;
    int t = threadIdx.x;
    part[blockIdx.x * 128 + t] = x[blockIdx.x * 128 + t];
    __threadfence();
    __syncthreads();
    if (t == 0)
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        TT sum = (TT)0;
        for (int i = 0; i < gridDim.x; i++)
            sum += part[i * 128 + t];
        y[t] = sum;
        if (t == 0)
            *ticket = 0;
    }
}""",
        (*arrays(128, 384, 384), ("z", 1)),
        types="float int",
    ),
    Right(
        "chain",
        """
(TT* y, TT* sums, const TT* x, int* ready) {
    int b = blockIdx.x;
    if (threadIdx.x == 0) {
        TT before = (TT)0;
        if (b > 0) {
            while (atomicAdd(&ready[b - 1], 0) == 0) {}
            __threadfence();
            before = sums[b - 1];
        }
        sums[b] = before + x[b];
        __threadfence();
        atomicExch(&ready[b], 1);
        y[b] = before;
    }
}""",
        (*arrays(3, 3, 3), ("z", 3)),
        types="float int double",
    ),
    Right(
        "released",
        """
(TT* y, const TT* x, int* ready) {
    int set = 0;
    if (blockIdx.x == 0) {
        y[0] = x[0];
        asm volatile("st.release.gpu.s32 [%0], 1;" :: "l"(ready) : "memory");
    } else {
        while (set == 0)
            asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(set) : "l"(ready) : "memory");
        y[blockIdx.x] = y[0];
    }
}""",
        (*arrays(3, 1), ("z", 1)),
        block=(1, 1, 1),
        types="float int",
    ),
    Right(
        "casadd",
        """
(double* y, const double* x) {
    unsigned long long* bits = (unsigned long long*)y;
    unsigned long long old = *bits, assumed;
    do {
        assumed = old;
        double sum = x[blockIdx.x * 128 + threadIdx.x] + __longlong_as_double(assumed);
        old = atomicCAS(bits, assumed, __double_as_longlong(sum));
    } while (assumed != old);
}""",
        arrays(1, 384),
        types="double",
    ),
]


def sources():
    """The right kernels by name, each with its text and its entry."""
    for kernel in RIGHT:
        for type_ in kernel.types.split():
            name = f"{kernel.name}_{type_}"
            text = f'extern "C" __global__ void {name}{kernel.source.strip()}\n'.replace("TT", type_)
            yield name, text, kernel, type_


WRONG = [
    # A barrier that is forgotten.
    *(
        Wrong("no barrier", name, old, "", line, rule)
        for name, old, line, rule in [
            ("reverse_float", "    __syncthreads();\n", "y[base + t] = s[127 - t];", "RAW"),
            ("reduce_int", "    __syncthreads(); // first\n", "s[t] += s[t + d];", "RAW"),
            ("reduce_float", "        __syncthreads(); // round\n", "s[t] += s[t + d];", "RAW"),
            ("blocksum_float", "    __syncthreads();\n", "v = t < 4 ? part[t]", "RAW"),
            ("scan_float", "    __syncthreads(); // first\n", "v = s[t - d];", "RAW"),
            ("scan_int", "        __syncthreads(); // read\n", "s[t] += v;", "WAR"),
            ("scan_double", "        __syncthreads(); // written\n", "v = s[t - d];", "RAW"),
            ("scan2_float", "    __syncthreads(); // first\n", "to[t] =", "RAW"),
            ("scan2_int", "        __syncthreads(); // round\n", "to[t] =", "RAW"),
            ("blelloch_float", "        __syncthreads(); // up\n", "+= s[offset * (2 * t + 1) - 1];", "RAW"),
            ("blelloch_int", "        __syncthreads(); // down\n", "- 1] = s[offset", "RAW"),
            ("transpose_float", "    __syncthreads();\n", "y[j * n + i] = tile", "RAW"),
            ("matmul_float", "        __syncthreads(); // filled\n", "sum += as", "RAW"),
            ("matmul_int", "        __syncthreads(); // used\n", "as[y][x] = a[row", "WAR"),
            ("doublebuffer_float", "    __syncthreads(); // first\n", "sum += as", "RAW"),
            ("doublebuffer_int", "        __syncthreads(); // round\n", "sum += as", "RAW"),
            ("stencil_float", "    __syncthreads();\n", "y[i] = s[t]", "RAW"),
            ("jacobi_int", "        __syncthreads(); // read\n", "s[t + 1] = v;", "WAR"),
            ("histogram_int", "    __syncthreads(); // zero\n", "atomicAdd(&bins[", "RAW"),
            ("histogram_short", "    __syncthreads(); // full\n", "atomicAdd(&y[t], bins[t]);", "RAW"),
            ("bitonic_float", "            __syncthreads(); // round\n", "float b = s[o];", "RAW"),
            ("softmax_float", "    __syncthreads(); // between\n", "s[t] = sum;", "WAR"),
            ("anyflag_float", "    __syncthreads(); // zero\n", "found = 1;", "WAW"),
            ("nbody_float", "        __syncthreads(); // filled\n", "float dx = s[j].x", "RAW"),
            ("bytes_char", "    __syncthreads();\n", "= s[255 - t];", "RAW"),
            ("producer_float", '            asm volatile("bar.sync 2, 128;" ::: "memory");\n', "s[t] = x[k", "WAR"),
            ("producer_int", '            asm volatile("bar.sync 1, 128;" ::: "memory");\n', "= s[127 - t];", "RAW"),
        ]
    ),
    # A meeting of the warp that is forgotten.
    *(
        Wrong("no syncwarp", name, old, "", line, rule)
        for name, old, line, rule in [
            ("warpshared_float", "    __syncwarp(); // first\n", "v = s[t + d];", "RAW"),
            ("tiles16_int", "        __syncwarp(mask); // round\n", "s[t] += s[t + d];", "RAW"),
            ("warpshared_double", "        __syncwarp(); // written\n", "v = s[t + d];", "RAW"),
            ("tiles16_float", "    __syncwarp(mask); // first\n", "s[t] += s[t + d];", "RAW"),
        ]
    ),
    # Masks of warps.
    Wrong(
        "mask",
        "tiles16_int",
        "t % 32 < 16 ? 0x0000ffff : 0xffff0000",
        "0x0000ffff",
        "__syncwarp(mask); // first",
        "MASK",
    ),
    Wrong("mask", "warpsum_float", "0xffffffff", "0x0000ffff", "v += __shfl_down_sync", "MASK"),
    Wrong(
        "mask", "votes_int", "__shfl_xor_sync(low", "__shfl_xor_sync(~low", "v += __shfl_xor_sync", "that never come"
    ),
    Wrong("mask", "blocksum_int", "if (t < 32) {", "if (t < 4) {", "v += __shfl_down_sync", "MASK"),
    # Barriers that not all threads reach.
    Wrong(
        "divergent barrier",
        "jacobi_float",
        "__syncthreads(); // read",
        "if (t < 60) __syncthreads(); // read",
        "// read",
        "DIVERGENT_BARRIER",
    ),
    Wrong(
        "divergent barrier",
        "softmax_double",
        "__syncthreads(); // between",
        "if (t % 2) __syncthreads(); // between",
        "// between",
        "DIVERGENT_BARRIER",
    ),
    Wrong(
        "divergent barrier",
        "reverse_int",
        "__syncthreads();",
        'if (t < 8)\n        asm volatile("bar.sync 1;" ::: "memory");\n    else\n        __syncthreads();',
        "bar.sync 1;",
        "not all threads of the block reach barrier",
    ),
    Wrong(
        "divergent barrier",
        "reduce_double",
        "            s[t] += s[t + d];\n        __syncthreads(); // round",
        "        {\n            s[t] += s[t + d];\n            __syncthreads(); // round\n        }",
        "// round",
        "DIVERGENT_BARRIER",
    ),
    # Bytes that nobody wrote.
    Wrong(
        "unwritten",
        "stencil_int",
        "    if (t == 127)\n        s[129] = x[i + 2];\n",
        "",
        "y[i] = s[t]",
        "UNWRITTEN_READ",
    ),
    Wrong(
        "unwritten",
        "histogram_char",
        "if (t < 64)\n        bins",
        "if (t < 8)\n        bins",
        "atomicAdd(&bins[",
        "UNWRITTEN_READ",
    ),
    Wrong("unwritten", "locals_float", "j < 8", "j < 6", "y[i] = v[i & 7]", "UNWRITTEN_READ"),
    Wrong("unwritten", "argmax_int", "    at[t] = t;\n", "", "at[t] = at[t + d];", "UNWRITTEN_READ"),
    Wrong("unwritten", "rowsum_double", "if (t % 32 == 0)", "if (t == 0)", "y[blockIdx.x] = s[0]", "UNWRITTEN_READ"),
    # Wrong indices.
    Wrong("index", "reverse_double", "s[127 - t]", "s[128 - t]", "s[128 - t]", "8 bytes behind s, which has 1024"),
    Wrong("index", "argmax_float", "s[t] = x", "s[t + 1] = x", "s[t + 1] = x", "OUT_OF_VARIABLE"),
    Wrong(
        "index", "doublebuffer_double", "as[1 - now][y][x] =", "as[2 - now][y][x] =", "as[2 - now]", "OUT_OF_VARIABLE"
    ),
    Wrong("index", "copy_float", "if (i < n) y[i] = x[i];", "y[i + 1] = x[i];", "y[i + 1]", "are in no array"),
    Wrong("index", "stencil2d_float", "k < 100", "k < 101", "s[k / 10][k % 10] =", "behind s, which has 400"),
    Wrong(
        "index", "copy_double", "= x[i]", "= *(const double*)((const char*)x + 8 * i + 4)", "y[i] =", "no multiple of 8"
    ),
    # Several writers, and what only atomic operations order.
    Wrong(
        "two writers",
        "compact_int",
        "y[base + __popc(votes & ((1u << lane) - 1))] = i;",
        "y[base] = i;",
        "y[base] = i;",
        "TWO_WRITERS",
    ),
    Wrong(
        "two writers",
        "table_int",
        "if (t < 4)\n        factors[t]",
        "factors[t & 3]",
        "factors[t & 3] = (int)",
        "TWO_WRITERS",
    ),
    Wrong(
        "two writers",
        "rowsum_int",
        "if (t % 32 == 0)\n        s[warp] = v;",
        "s[warp] = v;",
        "s[warp] = v;",
        "TWO_WRITERS",
    ),
    Wrong(
        "not atomic",
        "globalhistogram_int",
        "atomicAdd(&y[(int)x[i] & 15], 1);",
        "y[(int)x[i] & 15]++;",
        "y[(int)x[i] & 15]++;",
        "WAR",
    ),
    Wrong("not atomic", "dot_int", "atomicAdd(y, v);", "y[0] += v;", "y[0] += v;", "WAR"),
    Wrong("no fence", "lastblock_float", "        __threadfence();\n", "", "sum += part[i];", "RAW"),
    Wrong("no lock", "lock_int", "while (atomicCAS(mutex, 0, 1) != 0) {}", "", "y[0] = y[0] + (int)1;", "WAR"),
    Wrong("no lock", "lock_float", "atomicExch(mutex, 0);", "", "while (atomicCAS", "repeats without end"),
    Wrong(
        "no barrier",
        "gridbarrier_int",
        "    __threadfence();\n    __syncthreads();\n",
        "    __threadfence();\n",
        "z[i] = y[",
        "RAW",
    ),
    Wrong("no barrier", "gridbarrier_float", "    __syncthreads();\n    z[i]", "    z[i]", "z[i] = y[", "RAW"),
    Wrong("no wait", "flag_float", "while (*(volatile int*)ready == 0) {}", ";", "= y[i] + (float)1;", "WAR"),
    Wrong("no wait", "flag_int", "*(volatile int*)ready = 1;", ";", "while (*(volatile", "repeats without end"),
    Wrong("no wait", "gridbarrier_float", "while (*(volatile unsigned*)count < gridDim.x) {}", "", "z[i] = y[", "RAW"),
    # What a card may do in another order, since no fence keeps it.
    Wrong(
        "no fence",
        "chain_int",
        "        __threadfence();\n        atomicExch",
        "        atomicExch",
        "= sums[b - 1];",
        "RAW",
    ),
    Wrong("no fence", "chain_float", "            __threadfence();\n", "", "= sums[b - 1];", "RAW"),
    Wrong(
        "no fence",
        "lock_int",
        "        __threadfence();\n        atomicExch",
        "        atomicExch",
        "y[0] = y[0] + (int)1;",
        "RAW",
    ),
    Wrong(
        "no fence",
        "lock_float",
        "        __threadfence();\n        y[0]",
        "        y[0]",
        "y[0] = y[0] + (float)1;",
        "RAW",
    ),
    Wrong("no fence", "gridbarrier_float", "    __threadfence();\n", "", "z[i] = y[", "RAW"),
    Wrong(
        "no fence",
        "flag_int",
        "        __threadfence();\n        __syncthreads();",
        "        __syncthreads();",
        "= y[i] + (int)1;",
        "RAW",
    ),
    Wrong(
        "fence of a block", "ticket_float", "    __threadfence();", "    __threadfence_block();", "sum += part[", "RAW"
    ),
    Wrong("fence of a block", "released_int", "st.release.gpu", "st.release.cta", "y[blockIdx.x] = y[0];", "RAW"),
    Wrong("fence of a block", "released_float", "ld.acquire.gpu", "ld.acquire.cta", "y[blockIdx.x] = y[0];", "RAW"),
    Wrong(
        "fence in front",
        "lastblock_int",
        "        part[blockIdx.x] = s[0];\n        __threadfence();",
        "        __threadfence();\n        part[blockIdx.x] = s[0];",
        "sum += part[i];",
        "RAW",
    ),
]


def wrong():
    """The wrong kernels: the number, the text, the mistake, its line in the text, the right kernel and its type."""
    rights = {name: (text, kernel, type_) for name, text, kernel, type_ in sources()}
    for number, mistake in enumerate(WRONG):
        text, kernel, type_ = rights[mistake.name]
        assert mistake.old in text, mistake
        text = text.replace(f"void {mistake.name}(", f"void wrong{number}(").replace(mistake.old, mistake.new, 1)
        lines = [at for at, line in enumerate(text.splitlines(), 1) if mistake.line in line]
        assert len(lines) == 1, (mistake, lines)
        yield number, text, mistake, lines[0], kernel, type_


if __name__ == "__main__":
    texts = {"right": [text for _, text, *_ in sources()], "wrong": [text for _, text, *_ in wrong()]}
    sys.stdout.write("".join(texts[sys.argv[1]]))
