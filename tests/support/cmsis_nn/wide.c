/* The functions for numbers of 16 bits, and products of elements, in plain loops; scratch is overwritten. */
#include <arm_nnfunctions.h>
#include <stddef.h>
#include <string.h>

static int32_t scaled_by(int32_t value, int32_t multiplier, int32_t shift)
{
    int32_t left = (shift > 0) ? shift : 0;
    int32_t right = (shift > 0) ? 0 : -shift;
    int64_t product = (int64_t)(int32_t)((uint32_t)value << left) * multiplier;
    int32_t high = (int32_t)((product + (1LL << 30)) >> 31);
    int32_t mask = (int32_t)((1LL << right) - 1);
    int32_t rest = high & mask;
    return (high >> right) + ((rest > ((mask >> 1) + ((high < 0) ? 1 : 0))) ? 1 : 0);
}

/* Sums of 64 bits are scaled by 16 bits of the multiplier. */
static int32_t long_scaled_by(int64_t value, int32_t multiplier, int32_t shift)
{
    int64_t reduced = (multiplier < 0x7FFF0000) ? ((multiplier + (1 << 15)) >> 16) : 0x7FFF;
    int32_t right = 15 - shift;
    return (int32_t)(((value * reduced) + (1LL << (right - 1))) >> right);
}

static int32_t clamped_to(int32_t value, int32_t least, int32_t most)
{
    value = (value < least) ? least : value;
    return (value > most) ? most : value;
}

static void spoil(const cmsis_nn_context *ctx)
{
    if (ctx->size > 0) {
        (void)memset(ctx->buf, 0x5A, (size_t)ctx->size);
    }
}

/* A convolution: of all channels, or (`each`) of the one from which a channel of the result is made. */
static void convolved(const cmsis_nn_tile *stride, const cmsis_nn_tile *padding, const cmsis_nn_tile *dilation,
                      const cmsis_nn_activation *limits, const cmsis_nn_per_channel_quant_params *q,
                      const cmsis_nn_dims *in, const int16_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                      const int64_t *bias, const cmsis_nn_dims *out, int16_t *result, int32_t each)
{
    for (int32_t i = 0; i < (out->h * out->w * out->c); i++) {
        int32_t c = i % out->c;
        int32_t top = ((i / out->c / out->w) * stride->h) - padding->h;
        int32_t left = ((i / out->c % out->w) * stride->w) - padding->w;
        int64_t sum = (bias != NULL) ? bias[c] : 0;
        for (int32_t tap = 0; tap < (filter->h * filter->w); tap++) {
            int32_t y = top + ((tap / filter->w) * dilation->h);
            int32_t col = left + ((tap % filter->w) * dilation->w);
            if ((y < 0) || (y >= in->h) || (col < 0) || (col >= in->w)) {
                continue;
            }
            const int16_t *pixel = &x[((y * in->w) + col) * in->c];
            if (each != 0) {
                sum += (int32_t)pixel[c / each] * w[(tap * out->c) + c];
                continue;
            }
            for (int32_t k = 0; k < in->c; k++) {
                sum += (int32_t)pixel[k] * w[(((c * filter->h * filter->w) + tap) * in->c) + k];
            }
        }
        result[i] = (int16_t)clamped_to(long_scaled_by(sum, q->multiplier[c], q->shift[c]), limits->min, limits->max);
    }
}

arm_cmsis_nn_status arm_convolve_wrapper_s16(const cmsis_nn_context *ctx, const cmsis_nn_conv_params *p,
                                             const cmsis_nn_per_channel_quant_params *q, const cmsis_nn_dims *in,
                                             const int16_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                                             const cmsis_nn_dims *bias_dims, const cmsis_nn_bias_data *bias,
                                             const cmsis_nn_dims *out, int16_t *result)
{
    (void)bias_dims;
    spoil(ctx);
    if (bias->is_int32_bias) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    convolved(&p->stride, &p->padding, &p->dilation, &p->activation, q, in, x, filter, w, (const int64_t *)bias->data,
              out, result, 0);
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_depthwise_conv_s16(const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *p,
                                           const cmsis_nn_per_channel_quant_params *q, const cmsis_nn_dims *in,
                                           const int16_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                                           const cmsis_nn_dims *bias_dims, const int64_t *bias,
                                           const cmsis_nn_dims *out, int16_t *result)
{
    (void)bias_dims;
    spoil(ctx);
    convolved(&p->stride, &p->padding, &p->dilation, &p->activation, q, in, x, filter, w, bias, out, result,
              p->ch_mult);
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_fully_connected_s16(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
                                            const cmsis_nn_per_tensor_quant_params *q, const cmsis_nn_dims *in,
                                            const int16_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                                            const cmsis_nn_dims *bias_dims, const int64_t *bias,
                                            const cmsis_nn_dims *out, int16_t *result)
{
    (void)ctx;
    (void)bias_dims;
    if (in->n != 1) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    for (int32_t c = 0; c < out->c; c++) {
        int64_t sum = (bias != NULL) ? bias[c] : 0;
        for (int32_t i = 0; i < filter->n; i++) {
            sum += (int32_t)x[i] * w[(c * filter->n) + i];
        }
        sum = long_scaled_by(sum, q->multiplier, q->shift);
        result[c] = (int16_t)clamped_to((int32_t)sum, p->activation.min, p->activation.max);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

static void pooled(const cmsis_nn_pool_params *p, const cmsis_nn_dims *in, const int16_t *x,
                   const cmsis_nn_dims *filter, const cmsis_nn_dims *out, int16_t *result, int average)
{
    for (int32_t i = 0; i < (out->h * out->w * out->c); i++) {
        int32_t c = i % out->c;
        int32_t top = ((i / out->c / out->w) * p->stride.h) - p->padding.h;
        int32_t left = ((i / out->c % out->w) * p->stride.w) - p->padding.w;
        int32_t sum = 0;
        int32_t count = 0;
        int32_t most = -32768;
        for (int32_t y = top; y < (top + filter->h); y++) {
            for (int32_t col = left; col < (left + filter->w); col++) {
                if ((y >= 0) && (y < in->h) && (col >= 0) && (col < in->w)) {
                    int32_t value = x[(((y * in->w) + col) * in->c) + c];
                    sum += value;
                    most = (value > most) ? value : most;
                    count++;
                }
            }
        }
        sum = ((sum > 0) ? (sum + (count / 2)) : (sum - (count / 2))) / count;
        result[i] = (int16_t)clamped_to((average != 0) ? sum : most, p->activation.min, p->activation.max);
    }
}

arm_cmsis_nn_status arm_avgpool_s16(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p,
                                    const cmsis_nn_dims *in, const int16_t *x, const cmsis_nn_dims *filter,
                                    const cmsis_nn_dims *out, int16_t *result)
{
    spoil(ctx);
    pooled(p, in, x, filter, out, result, 1);
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_max_pool_s16(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p,
                                     const cmsis_nn_dims *in, const int16_t *x, const cmsis_nn_dims *filter,
                                     const cmsis_nn_dims *out, int16_t *result)
{
    (void)ctx;
    pooled(p, in, x, filter, out, result, 0);
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_elementwise_add_s16(const int16_t *a, const int16_t *b, const int32_t a_offset,
                                            const int32_t a_mult, const int32_t a_shift, const int32_t b_offset,
                                            const int32_t b_mult, const int32_t b_shift, const int32_t left_shift,
                                            int16_t *output, const int32_t out_offset, const int32_t out_mult,
                                            const int32_t out_shift, const int32_t least, const int32_t most,
                                            const int32_t block_size)
{
    (void)a_offset;
    (void)b_offset;
    (void)out_offset;
    for (int32_t i = 0; i < block_size; i++) {
        int32_t one = scaled_by(a[i] * (1 << left_shift), a_mult, a_shift);
        int32_t other = scaled_by(b[i] * (1 << left_shift), b_mult, b_shift);
        output[i] = (int16_t)clamped_to(scaled_by(one + other, out_mult, out_shift), least, most);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_elementwise_mul_s16(const int16_t *a, const int16_t *b, const int32_t a_offset,
                                            const int32_t b_offset, int16_t *output, const int32_t out_offset,
                                            const int32_t out_mult, const int32_t out_shift, const int32_t least,
                                            const int32_t most, const int32_t block_size)
{
    (void)a_offset;
    (void)b_offset;
    (void)out_offset;
    for (int32_t i = 0; i < block_size; i++) {
        output[i] = (int16_t)clamped_to(scaled_by((int32_t)a[i] * b[i], out_mult, out_shift), least, most);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_elementwise_mul_s8(const int8_t *a, const int8_t *b, const int32_t a_offset,
                                           const int32_t b_offset, int8_t *output, const int32_t out_offset,
                                           const int32_t out_mult, const int32_t out_shift, const int32_t least,
                                           const int32_t most, const int32_t block_size)
{
    for (int32_t i = 0; i < block_size; i++) {
        int32_t product = (a[i] + a_offset) * (b[i] + b_offset);
        output[i] = (int8_t)clamped_to(scaled_by(product, out_mult, out_shift) + out_offset, least, most);
    }
    return ARM_CMSIS_NN_SUCCESS;
}
