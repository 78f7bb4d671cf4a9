"""Sums of the tensor core that an H200 gave, in which another order or another rounding gives other bits."""

import numpy as np
import pytest

from device_model.ptx.lanes.tensor import OPERANDS, product

# The shape of the instruction; elements of a, b and c; a row of a, a column of b, the accumulator, the result.
MEASURED = [
    ("m16n8k8", "tfloat32", "float32",
     "c31f243dc58b1ed43dbc7e4cbe70e388bc41cfe7bb4933fe3e765baf3c3814b1",
     "3d912b1e3b8026b541a56ffdc4596c433d77357cb859b93ec57102e343505134",
     "3f3a61d8", "c43a9d05"),
    ("m16n8k8", "tfloat32", "float32",
     "bfd4554645914ecab90f744a37c4e9c9b7a05bfac132de65b99c02c4badd5c20",
     "408f441bb7a2dbfabebd96a540bce616bc32b479bf52d3c23ff42d12ba566d0f",
     "4488a8dc", "4488debb"),
    ("m16n8k8", "tfloat32", "float32",
     "4379ab59c4f40a28bcd53b48b83238e244a1450d39812ce9bea3540a42ac6f6e",
     "41f71b64b969955ac0dd466abfe847d638dca2cd3a25379843cd2cde3b3c71ba",
     "bb8a9b64", "45eccadd"),
    ("m16n8k4", "tfloat32", "float32",
     "b9667f5bc3ad20a3bf7fc450c4237ac2",
     "bc9f243d3d77de47b9c1cfe7b8edcd8f",
     "4533290e", "4531db27"),
    ("m16n8k4", "tfloat32", "float32",
     "bb8c6accbb5c44603e60ade7c0b388aa",
     "bd41eca73d1407a3c11e949fc5c7bbeb",
     "38a985e7", "470bf683"),
    ("m16n8k4", "tfloat32", "float32",
     "41e0717439a81b8f3d399a0037966042",
     "c15c4c3b38f78dccbeff7ef644072877",
     "3dcb3e3c", "c3c0ff8a"),
    ("m16n8k16", "float16", "float16",
     "8faa243590a0a23e3bb93467383ba9f80c018d46282a069a02aea812b027ace3",
     "86dd96872132119b10f938db3c463e4e02d2866d294fa109360e242839ce8430",
     "1bf2", "388e"),
    ("m16n8k16", "float16", "float16",
     "bf3c9b0c304591f5313492b4a01c824283fbbb4311a81fb8372f1efd2311084f",
     "bc160ba0b68db0301872b7582ab8b07e3b27b59e1af8833291fdbb1482ac354c",
     "bfd9", "3098"),
    ("m16n8k16", "float16", "float16",
     "3a3435711e369f89addebc3c3cbcb480bdcab7e915b42cee81bf27769bf2b98a",
     "bdd1a88e9875b38730a38fa18eafb45db9f90d42bb899f322d6db171835d0594",
     "04e9", "936c"),
    ("m16n8k8", "float16", "float32",
     "0a8bb1e52a95af26b962940a2742956a",
     "07fb22a4313eb00fb8069b7a015c9900",
     "bca5a07b", "3ead411d"),
    ("m16n8k8", "float16", "float32",
     "8959b2c191cfa2c63a8d102f098380e3",
     "0b539072b098aa8186001ecd01df211e",
     "40fe0231", "40fe08e1"),
    ("m16n8k8", "float16", "float32",
     "3df299bb2a0e8bb08b19b3dfb63ea6d8",
     "30950f42bf87ae83b5eabc73a42e0005",
     "383192fb", "3ececea0"),
    ("m8n8k4", "float64", "float64",
     "3e7427a31c1ffc5841931ea59a5b303ec0018b7980d81558c16c7fba74b18102",
     "3f4182976faeca4f40509a877c4afa1abfa8b2a8e6c4551b40f962f7089a55c7",
     "41664fde2aa92dd3", "c276880a6156268c"),
    ("m8n8k4", "float64", "float64",
     "3ff4a02541d6ae8b3fc49858ab50cd31beef98f4a0614d1a3ed9256a8b60999d",
     "c0686aef310fdf28be34fb9010cbb292c16d1c7e93eadf29409c16f400811e7f",
     "40cad54362427d06", "40caca5780b9b8fa"),
    ("m8n8k4", "float64", "float64",
     "c04276e1bbbc5d66403f7e8eb64de2ebc08b9af53d04aeb5be107da2b4c602f0",
     "c12e54e5fff7db2ac0738435278e0b8240e67fdad8536c7f3dc656e278d45c59",
     "411aeba40d1160fa", "c14b3c0069a4da63"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "accumulators", "a", "b", "c", "d"), MEASURED)
def test_a_sum_has_the_bits_that_a_card_gave(shape, kind, accumulators, a, b, c, d):
    def read(text, dtype):
        return np.frombuffer(bytes.fromhex(text), np.dtype(dtype).newbyteorder(">")).astype(dtype)

    left, right, added = read(a, OPERANDS[kind]), read(b, OPERANDS[kind]), read(c, accumulators)
    assert shape.endswith(f"k{len(left)}")
    result = product(left[None, :], right[:, None], added[None, :], kind)
    assert result.tobytes() == read(d, accumulators).tobytes()
