/* Convolutions, depthwise ones, and products with weights, which are convolutions of one tap. Weights of a convolution:
   channel, row, column, input; of a depthwise one: row, column, channel. The bias is less the input's zero point times
   the weights, so that what lies outside of the input counts as that zero point. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w, in_c, times; /* times: channels of the result for each of the input, in depthwise ones */
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
    int32_t in_zero, out_zero, low, high;
    int32_t small; /* 1: sums are below 2^30, each is shifted to the right, and no weight is -128 */
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *multiplier;
    const int8_t *shift;
    const int8_t *border; /* a pixel outside of the input; or none */
} layer_t;

/* A channel of the result, from its sum of products. */
INLINED int8_t result_of(const layer_t *k, int32_t c, int32_t products)
{
    int32_t sum = (int32_t)((uint32_t)products + (uint32_t)k->bias[c]);
    if (k->small != 0) {
        sum = scaled_down(sum, k->multiplier[c], -k->shift[c]);
    } else {
        sum = scaled(sum, k->multiplier[c], k->shift[c]);
    }
    return clamped(sum + k->out_zero, k->low, k->high);
}
