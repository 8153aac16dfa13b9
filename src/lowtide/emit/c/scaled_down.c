#if !MODEL_SINGLE_ROUNDING
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__)
/* The high word of twice the product, rounded. */
INLINED int32_t rounded_high(int32_t value, int32_t multiplier)
{
    int32_t high;
    __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"(value * 2), "r"(multiplier));
    return high;
}
#else
INLINED int32_t rounded_high(int32_t value, int32_t multiplier)
{
    return (int32_t)((((int64_t)(value * 2) * (int64_t)multiplier) + ((int64_t)1 << 31)) >> 32);
}
#endif
#endif

/* As `scaled` of a number below 2^30 that is shifted to the right, by 1 or more. */
INLINED int32_t scaled_down(int32_t value, int32_t multiplier, int32_t right)
{
#if MODEL_SINGLE_ROUNDING
    return scaled(value, multiplier, -right);
#else
    int32_t high = rounded_high(value, multiplier);
    return (((high + (high >> 31)) >> (right - 1)) + 1) >> 1; /* halves go away from zero */
#endif
}

