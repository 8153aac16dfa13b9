/* Values of the logistic function for 0, 1/24, 2/24 ..., 16 bits right of the point; lines between them. */
static uint32_t on_curve(const uint16_t *curve, uint32_t size, uint32_t bits)
{
    uint32_t place = size >> bits;
    uint32_t below;
    if (place >= 255U) {
        return ((bits == 8U) ? 0xFFFFU : 0xFFFEU) << bits;
    }
    below = curve[place];
    return (below << bits) + ((size & (((uint32_t)1 << bits) - 1U)) * ((uint32_t)curve[place + 1U] - below));
}

/* 1 / (1 + exp(-x)) of 12 bits right of the point, with 15. */
static int32_t logistic_of(const uint16_t *curve, int32_t value)
{
    int32_t x = value * 3;
    uint32_t size = (uint32_t)((x < 0) ? -x : x);
    uint32_t result = on_curve(curve, size, 9U);
    result = (x >= 0) ? (result + 512U) : (((uint32_t)1 << 25) - result + 511U);
    return (int32_t)(result >> 10);
}

/* tanh(x) with 15 bits right of the point; a factor of 3 and a shift take x to where the curve counts from. */
static int32_t tanh_of(const uint16_t *curve, int32_t value, int32_t multiplier, int32_t shift)
{
    int32_t x = ((value * multiplier) + (((int32_t)1 << shift) >> 1)) >> shift;
    uint32_t size = (uint32_t)((x < 0) ? -x : x);
    int32_t result = (int32_t)on_curve(curve, size, 8U) - ((int32_t)1 << 23);
    return (x >= 0) ? ((result + 128) >> 8) : ((127 - result) >> 8);
}

