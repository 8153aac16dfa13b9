#if defined(__ARM_FEATURE_SIMD32)
static inline uint32_t four_at(const int8_t *from)
{
    return (uint32_t)(uint8_t)from[0] | ((uint32_t)(uint8_t)from[1] << 8) | ((uint32_t)(uint8_t)from[2] << 16)
           | ((uint32_t)(uint8_t)from[3] << 24);
}
#endif

/* The sum of products of numbers beside each other, those of `a` less their zero. */
#if defined(__ARM_FEATURE_SIMD32) && defined(__GNUC__)
__attribute__((noinline)) /* its loop keeps all in registers so */
#endif
static int32_t dot(const int8_t *a, const int8_t *b, int32_t length, int32_t zero)
{
    int32_t sum = 0;
    int32_t i = 0;
#if defined(__ARM_FEATURE_SIMD32)
    uint32_t less = (uint32_t)(-zero) & 0xFFFFU;
    int16x2_t offset = (int16x2_t)(less | (less << 16));
    for (; i < (length - 3); i += 4) { /* two products at once, of bytes 0 and 2 and of bytes 1 and 3 */
        uint32_t four = four_at(&a[i]);
        uint32_t weights = four_at(&b[i]);
        sum = __smlad(__sxtab16(offset, (int8x4_t)four), __sxtb16((int8x4_t)weights), sum);
        four = (four >> 8) | (four << 24);
        weights = (weights >> 8) | (weights << 24);
        sum = __smlad(__sxtab16(offset, (int8x4_t)four), __sxtb16((int8x4_t)weights), sum);
    }
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4 /* clang does by itself what gcc leaves to -O3 */
#endif
    for (; i < length; i++) {
        sum += ((int32_t)a[i] - zero) * (int32_t)b[i];
    }
    return sum;
}
