#if defined(__ARM_FEATURE_MVE)
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
#if defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_DSP)
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

