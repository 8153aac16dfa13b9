/* 1 / (1 + exp(-x)) with 15 bits right of the point; a factor and a shift take x to where the curve counts from. */
static int32_t logistic_of(const uint16_t *curve, int32_t value, int32_t multiplier, int32_t shift)
{
    int32_t x = ((value * multiplier) + (((int32_t)1 << shift) >> 1)) >> shift;
    uint32_t size = (uint32_t)((x < 0) ? -x : x);
    uint32_t result = on_curve(curve, size, 9U);
    result = (x >= 0) ? (result + 512U) : (((uint32_t)1 << 25) - result + 511U);
    return (int32_t)(result >> 10);
}
