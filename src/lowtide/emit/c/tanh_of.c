/* tanh(x) with 15 bits right of the point; a factor and a shift take x to where the curve counts from. */
static int32_t tanh_of(const uint16_t *curve, int32_t value, int32_t multiplier, int32_t shift)
{
    int32_t x = ((value * multiplier) + (((int32_t)1 << shift) >> 1)) >> shift;
    uint32_t size = (uint32_t)((x < 0) ? -x : x);
    int32_t result = (int32_t)on_curve(curve, size, 8U) - ((int32_t)1 << 23);
    return (x >= 0) ? ((result + 128) >> 8) : ((127 - result) >> 8);
}
