/* Times 2^shift * multiplier / 2^31 with 16 bits of the multiplier, as TFLite scales sums of 64 bits. */
static int32_t scaled_long(int64_t value, int32_t multiplier, int32_t shift)
{
    int64_t reduced = (multiplier < 0x7FFF0000) ? (((int64_t)multiplier + 0x8000) >> 16) : 0x7FFF;
    int32_t right = 15 - shift;
    return (int32_t)(((value * reduced) + ((int64_t)1 << (right - 1))) >> right);
}

