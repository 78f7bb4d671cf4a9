"""Random values, often extreme ones."""

FRACTION = {16: 10, 32: 23, 64: 52}


def whole(draw, bits):
    """Return the bits of an integer, often an extreme one."""
    top = 1 << bits
    choice = draw.random()
    if choice < 0.35:
        return (
            draw.choice(
                [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 255, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1]
            )
            % top
        )
    if choice < 0.5:
        return 1 << draw.randrange(bits)
    if choice < 0.7:
        return draw.randrange(256)
    return draw.randrange(top) >> draw.choice([0, 0, draw.randrange(bits)])


def real(draw, bits):
    """Return the bits of a float, often an extreme or a simple one."""
    fraction = FRACTION[bits]
    bias = (1 << bits - fraction - 2) - 1
    top = 1 << bits
    infinity = (1 << bits - 1) - (1 << fraction)
    sign = draw.choice([0, 1 << bits - 1])
    choice = draw.random()
    if choice < 0.2:
        return sign | draw.choice(
            [
                0,
                0,
                infinity,
                infinity + 1,
                infinity | 1 << fraction - 1,
                infinity | 3 << fraction - 2,
                1,
                (1 << fraction) - 1,
                1 << fraction,
                infinity - 1,
            ]
        )
    if choice < 0.3:
        return sign | draw.randrange(1 << fraction)
    if choice < 0.6:  # few bits, around 1
        value = draw.randrange(1, 16) << draw.randrange(8)
        exponent = value.bit_length() - 1
        rest = value - (1 << exponent)
        shifted = rest << fraction - exponent if exponent <= fraction else rest >> exponent - fraction
        return sign | (bias + exponent - draw.choice([0, 1, 4, 7]) << fraction) + shifted
    if choice < 0.8:
        exponent = bias + draw.randrange(-min(bias - 1, 12), min(bias, 70))
        return (
            sign
            | exponent << fraction
            | draw.choice([draw.randrange(1 << fraction), (1 << fraction) - 1, draw.randrange(4)])
        )
    return draw.randrange(top)
