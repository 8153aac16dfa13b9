INLINED int32_t products_of(const int8_t *a, const int8_t *b, int32_t length)
{
    int32_t sum = 0;
    int32_t i;
    for (i = 0; i < length; i++) {
        sum += (int32_t)a[i] * (int32_t)b[i];
    }
    return sum;
}

/* Four channels at a time. With MVE they are a vector, with the DSP instructions two products are added at once; other
   processors take the same steps one by one. */
#if defined(__ARM_FEATURE_MVE)
INLINED four_t no_sums(void)
{
    return vdupq_n_s32(0);
}

/* Sums of products of an input with the weights of four channels, `row` bytes apart. */
INLINED four_t four_products(const int8_t *in, const int8_t *weights, int32_t row, int32_t length)
{
    int32_t sums[4] = {0, 0, 0, 0};
    int32_t i;
    for (i = 0; i < (length - 15); i += 16) {
        int8x16_t x = vldrbq_s8(&in[i]);
        sums[0] = vmladavaq_s8(sums[0], x, vldrbq_s8(&weights[i]));
        sums[1] = vmladavaq_s8(sums[1], x, vldrbq_s8(&weights[row + i]));
        sums[2] = vmladavaq_s8(sums[2], x, vldrbq_s8(&weights[(2 * row) + i]));
        sums[3] = vmladavaq_s8(sums[3], x, vldrbq_s8(&weights[(3 * row) + i]));
    }
    if (i < length) {
        mve_pred16_t rest = vctp8q((uint32_t)(length - i));
        int8x16_t x = vldrbq_z_s8(&in[i], rest);
        sums[0] = vmladavaq_s8(sums[0], x, vldrbq_z_s8(&weights[i], rest));
        sums[1] = vmladavaq_s8(sums[1], x, vldrbq_z_s8(&weights[row + i], rest));
        sums[2] = vmladavaq_s8(sums[2], x, vldrbq_z_s8(&weights[(2 * row) + i], rest));
        sums[3] = vmladavaq_s8(sums[3], x, vldrbq_z_s8(&weights[(3 * row) + i], rest));
    }
    return (four_t){sums[0], sums[1], sums[2], sums[3]};
}

INLINED void set_sums(int32_t *to, four_t sums)
{
    vstrwq_s32(to, sums);
}
#else
typedef struct {
    int32_t of[4];
} four_t;

INLINED four_t no_sums(void)
{
    four_t none = {{0, 0, 0, 0}};
    return none;
}

INLINED void set_sums(int32_t *to, four_t sums)
{
    to[0] = sums.of[0];
    to[1] = sums.of[1];
    to[2] = sums.of[2];
    to[3] = sums.of[3];
}

#if defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_DSP)
INLINED uint32_t four_bytes(const int8_t *from)
{
    return (uint32_t)(uint8_t)from[0] | ((uint32_t)(uint8_t)from[1] << 8) | ((uint32_t)(uint8_t)from[2] << 16)
           | ((uint32_t)(uint8_t)from[3] << 24);
}

/* Bytes 1 and 3 as two numbers of 16 bits; `__sxtb16` has bytes 0 and 2. */
INLINED int16x2_t odd_bytes(uint32_t four)
{
#if defined(__GNUC__)
    int16x2_t odd; /* in one instruction, of which gcc makes two */
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));
    return odd;
#else
    return __sxtb16((int8x4_t)((four >> 8) | (four << 24)));
#endif
}

INLINED int32_t with_products(int32_t sum, int16x2_t even, int16x2_t odd, const int8_t *weights)
{
    uint32_t four = four_bytes(weights);
    return __smlad(odd, odd_bytes(four), __smlad(even, __sxtb16((int8x4_t)four), sum));
}

INLINED four_t four_products(const int8_t *in, const int8_t *weights, int32_t row, int32_t length)
{
    four_t sums = no_sums();
    int32_t i;
    int32_t j;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 2
#endif
    for (i = 0; i < (length - 3); i += 4) {
        uint32_t four = four_bytes(&in[i]);
        int16x2_t even = __sxtb16((int8x4_t)four);
        int16x2_t odd = odd_bytes(four);
        sums.of[0] = with_products(sums.of[0], even, odd, &weights[i]);
        sums.of[1] = with_products(sums.of[1], even, odd, &weights[row + i]);
        sums.of[2] = with_products(sums.of[2], even, odd, &weights[(2 * row) + i]);
        sums.of[3] = with_products(sums.of[3], even, odd, &weights[(3 * row) + i]);
    }
    for (; i < length; i++) {
        for (j = 0; j < 4; j++) {
            sums.of[j] += (int32_t)in[i] * (int32_t)weights[(j * row) + i];
        }
    }
    return sums;
}
#else
INLINED four_t four_products(const int8_t *in, const int8_t *weights, int32_t row, int32_t length)
{
    four_t sums = no_sums();
    int32_t i;
    for (i = 0; i < length; i++) {
        int32_t x = in[i];
        sums.of[0] += x * (int32_t)weights[i];
        sums.of[1] += x * (int32_t)weights[row + i];
        sums.of[2] += x * (int32_t)weights[(2 * row) + i];
        sums.of[3] += x * (int32_t)weights[(3 * row) + i];
    }
    return sums;
}
#endif
#endif
