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

/* Four channels of a tap, each with its weight. */
INLINED four_t with_tap(four_t sums, const int8_t *in, const int8_t *weights)
{
    return vaddq_s32(sums, vmulq_s32(vldrbq_s32(in), vldrbq_s32(weights)));
}

/* Four channels of the result, from their sums of products. */
INLINED void set_four(const layer_t *k, int32_t c, four_t products, int8_t *to)
{
#if MODEL_SINGLE_ROUNDING
    int32_t j;
    for (j = 0; j < 4; j++) {
        to[j] = result_of(k, c + j, products[j]);
    }
#else
    four_t sums = vaddq_s32(products, vldrwq_s32(&k->bias[c]));
    four_t shift = vldrbq_s32(&k->shift[c]);
    if (k->small == 0) {
        sums = vshlq_s32(sums, vmaxq_s32(shift, no_sums()));
        shift = vminq_s32(shift, no_sums());
    }
    sums = scaled_four(sums, vldrwq_s32(&k->multiplier[c]), shift);
    store_four(to, vaddq_n_s32(sums, k->out_zero), k->low, k->high);
#endif
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

INLINED four_t with_tap(four_t sums, const int8_t *in, const int8_t *weights)
{
    uint32_t x = four_bytes(in);
    uint32_t w = four_bytes(weights);
    int16x2_t even = __sxtb16((int8x4_t)x);
    int16x2_t odd = odd_bytes(x);
    int16x2_t even_weights = __sxtb16((int8x4_t)w);
    int16x2_t odd_weights = odd_bytes(w);
    sums.of[0] = __smlabb(even, even_weights, sums.of[0]);
    sums.of[1] = __smlabb(odd, odd_weights, sums.of[1]);
    sums.of[2] = __smlatt(even, even_weights, sums.of[2]);
    sums.of[3] = __smlatt(odd, odd_weights, sums.of[3]);
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

INLINED four_t with_tap(four_t sums, const int8_t *in, const int8_t *weights)
{
    int32_t j;
    for (j = 0; j < 4; j++) {
        sums.of[j] += (int32_t)in[j] * (int32_t)weights[j];
    }
    return sums;
}
#endif

INLINED void set_four(const layer_t *k, int32_t c, four_t products, int8_t *to)
{
    to[0] = result_of(k, c, products.of[0]);
    to[1] = result_of(k, c + 1, products.of[1]);
    to[2] = result_of(k, c + 2, products.of[2]);
    to[3] = result_of(k, c + 3, products.of[3]);
}
#endif

#if defined(__ARM_FEATURE_MVE)
/* Products of sixteen channels of a tap with their weights: of channels 0, 2, ... and of channels 1, 3, ... */
typedef struct {
    int16x8_t even, odd;
} sixteen_t;

INLINED sixteen_t sixteen_products(const int8_t *in, const int8_t *weights)
{
    int8x16_t x = vldrbq_s8(in);
    int8x16_t w = vldrbq_s8(weights);
    sixteen_t products = {vmullbq_int_s8(x, w), vmulltq_int_s8(x, w)};
    return products;
}

/* Sums over taps. Two products of weights above -128 fit into 16 bits. */
INLINED void sixteen_sums(const int8_t *const *taps, const int8_t *weights, int32_t count, int32_t c, int32_t row,
                          int32_t *sums)
{
    int32x4x4_t four = {{vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}};
    int32_t t;
    for (t = 0; t < count; t += 2) {
        sixteen_t pair = sixteen_products(&taps[t][c], &weights[t * row]);
        if ((t + 1) < count) {
            sixteen_t other = sixteen_products(&taps[t + 1][c], &weights[(t + 1) * row]);
            pair.even = vaddq_s16(pair.even, other.even);
            pair.odd = vaddq_s16(pair.odd, other.odd);
        }
        four.val[0] = vaddq_s32(four.val[0], vmovlbq_s16(pair.even));
        four.val[1] = vaddq_s32(four.val[1], vmovlbq_s16(pair.odd));
        four.val[2] = vaddq_s32(four.val[2], vmovltq_s16(pair.even));
        four.val[3] = vaddq_s32(four.val[3], vmovltq_s16(pair.odd));
    }
    vst4q_s32(sums, four); /* in the order of channels */
}
#endif

