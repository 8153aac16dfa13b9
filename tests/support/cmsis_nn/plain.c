/* What these functions compute, in plain loops; scratch is overwritten. Softmax is lowtide's own (`library_nets.py`). */
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

static int8_t clamped_to(int32_t value, const cmsis_nn_activation *limits)
{
    value = (value < limits->min) ? limits->min : value;
    return (int8_t)((value > limits->max) ? limits->max : value);
}

static void spoil(const cmsis_nn_context *ctx)
{
    if (ctx->size > 0) {
        (void)memset(ctx->buf, 0x5A, (size_t)ctx->size);
    }
}

/* The sum of products of a window: of all channels of the input, or of one. */
static int32_t window_sum(const cmsis_nn_dims *in, const int8_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                          const cmsis_nn_tile *padding, const cmsis_nn_tile *stride, const cmsis_nn_tile *dilation,
                          int32_t offset, int32_t row, int32_t column, int32_t first, int32_t channels, int32_t step)
{
    int32_t sum = 0;
    for (int32_t ky = 0; ky < filter->h; ky++) {
        for (int32_t kx = 0; kx < filter->w; kx++) {
            int32_t y = (row * stride->h) - padding->h + (ky * dilation->h);
            int32_t col = (column * stride->w) - padding->w + (kx * dilation->w);
            if ((y < 0) || (y >= in->h) || (col < 0) || (col >= in->w)) {
                continue;
            }
            for (int32_t c = 0; c < channels; c++) {
                sum += (x[(((y * in->w) + col) * in->c) + first + c] + offset)
                       * w[(((ky * filter->w) + kx) * step) + c];
            }
        }
    }
    return sum;
}

arm_cmsis_nn_status arm_convolve_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_conv_params *p,
                                            const cmsis_nn_per_channel_quant_params *q, const cmsis_nn_dims *in,
                                            const int8_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                                            const cmsis_nn_dims *bias_dims, const int32_t *bias,
                                            const cmsis_nn_dims *out, int8_t *result)
{
    (void)bias_dims;
    spoil(ctx);
    for (int32_t y = 0; y < out->h; y++) {
        for (int32_t col = 0; col < out->w; col++) {
            for (int32_t c = 0; c < out->c; c++) {
                const int8_t *own = &w[c * filter->h * filter->w * in->c];
                int32_t sum = window_sum(in, x, filter, own, &p->padding, &p->stride, &p->dilation, p->input_offset, y,
                                         col, 0, in->c, in->c);
                sum = scaled_by(sum + ((bias != NULL) ? bias[c] : 0), q->multiplier[c], q->shift[c]);
                *result++ = clamped_to(sum + p->output_offset, &p->activation);
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *p,
                                                  const cmsis_nn_per_channel_quant_params *q, const cmsis_nn_dims *in,
                                                  const int8_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                                                  const cmsis_nn_dims *bias_dims, const int32_t *bias,
                                                  const cmsis_nn_dims *out, int8_t *result)
{
    (void)bias_dims;
    spoil(ctx);
    for (int32_t y = 0; y < out->h; y++) {
        for (int32_t col = 0; col < out->w; col++) {
            for (int32_t c = 0; c < out->c; c++) {
                int32_t sum = window_sum(in, x, filter, &w[c], &p->padding, &p->stride, &p->dilation, p->input_offset,
                                         y, col, c / p->ch_mult, 1, out->c);
                sum = scaled_by(sum + ((bias != NULL) ? bias[c] : 0), q->multiplier[c], q->shift[c]);
                *result++ = clamped_to(sum + p->output_offset, &p->activation);
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}

/* The library with MVE takes sums of weights and the bias from `ctx`: they must be right. */
static arm_cmsis_nn_status product(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p, const int32_t *multiplier,
                                   const int32_t *shift, int32_t step, const int8_t *x, int32_t depth, const int8_t *w,
                                   const int32_t *bias, int32_t channels, int8_t *result)
{
    const int32_t *sums = (const int32_t *)ctx->buf;
    for (int32_t c = 0; c < channels; c++) {
        int32_t sum = (bias != NULL) ? bias[c] : 0;
        int32_t total = sum;
        for (int32_t i = 0; i < depth; i++) {
            sum += (x[i] + p->input_offset) * w[(c * depth) + i];
            total += p->input_offset * w[(c * depth) + i];
        }
        if ((sums != NULL) && (sums[c] != total)) {
            return ARM_CMSIS_NN_ARG_ERROR;
        }
        result[c] = clamped_to(scaled_by(sum, multiplier[c * step], shift[c * step]) + p->output_offset, &p->activation);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_fully_connected_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
                                           const cmsis_nn_per_tensor_quant_params *q, const cmsis_nn_dims *in,
                                           const int8_t *x, const cmsis_nn_dims *filter, const int8_t *w,
                                           const cmsis_nn_dims *bias_dims, const int32_t *bias,
                                           const cmsis_nn_dims *out, int8_t *result)
{
    (void)bias_dims;
    return (in->n != 1) ? ARM_CMSIS_NN_ARG_ERROR
                        : product(ctx, p, &q->multiplier, &q->shift, 0, x, filter->n, w, bias, out->c, result);
}

arm_cmsis_nn_status arm_fully_connected_per_channel_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
                                                       const cmsis_nn_per_channel_quant_params *q,
                                                       const cmsis_nn_dims *in, const int8_t *x,
                                                       const cmsis_nn_dims *filter, const int8_t *w,
                                                       const cmsis_nn_dims *bias_dims, const int32_t *bias,
                                                       const cmsis_nn_dims *out, int8_t *result)
{
    (void)bias_dims;
    return (in->n != 1) ? ARM_CMSIS_NN_ARG_ERROR
                        : product(ctx, p, q->multiplier, q->shift, 1, x, filter->n, w, bias, out->c, result);
}

static void pooled(const cmsis_nn_pool_params *p, const cmsis_nn_dims *in, const int8_t *x, const cmsis_nn_dims *filter,
                   const cmsis_nn_dims *out, int8_t *result, int average)
{
    for (int32_t i = 0; i < (out->h * out->w * out->c); i++) {
        int32_t c = i % out->c;
        int32_t top = ((i / out->c / out->w) * p->stride.h) - p->padding.h;
        int32_t left = ((i / out->c % out->w) * p->stride.w) - p->padding.w;
        int32_t sum = 0;
        int32_t count = 0;
        int32_t most = -128;
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
        result[i] = clamped_to((average != 0) ? sum : most, &p->activation);
    }
}

arm_cmsis_nn_status arm_avgpool_s8(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p, const cmsis_nn_dims *in,
                                   const int8_t *x, const cmsis_nn_dims *filter, const cmsis_nn_dims *out,
                                   int8_t *result)
{
    spoil(ctx);
    pooled(p, in, x, filter, out, result, 1);
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_max_pool_s8(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p, const cmsis_nn_dims *in,
                                    const int8_t *x, const cmsis_nn_dims *filter, const cmsis_nn_dims *out,
                                    int8_t *result)
{
    (void)ctx;
    pooled(p, in, x, filter, out, result, 0);
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_elementwise_add_s8(const int8_t *a, const int8_t *b, const int32_t a_offset,
                                           const int32_t a_mult, const int32_t a_shift, const int32_t b_offset,
                                           const int32_t b_mult, const int32_t b_shift, const int32_t left_shift,
                                           int8_t *output, const int32_t out_offset, const int32_t out_mult,
                                           const int32_t out_shift, const int32_t least, const int32_t most,
                                           const int32_t block_size)
{
    cmsis_nn_activation limits = {least, most};
    for (int32_t i = 0; i < block_size; i++) {
        int32_t one = scaled_by((a[i] + a_offset) * (1 << left_shift), a_mult, a_shift);
        int32_t other = scaled_by((b[i] + b_offset) * (1 << left_shift), b_mult, b_shift);
        output[i] = clamped_to(scaled_by(one + other, out_mult, out_shift) + out_offset, &limits);
    }
    return ARM_CMSIS_NN_SUCCESS;
}
