/* Depthwise convolutions of numbers with a point. Weights: row, column, channel. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w, out_c, times; /* times: channels of the result for each of the input */
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
    float low, high;
    const float *weights;
    const float *bias; /* or none */
} real_depthwise_t;

static float real_depthwise_sum(const real_depthwise_t *k, int32_t y, int32_t x, int32_t c)
{
    float sum = 0.0f;
    int32_t row;
    int32_t column;
    for (row = 0; row < k->kernel_h; row++) {
        int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
        for (column = 0; column < k->kernel_w; column++) {
            int32_t in_x = (x * k->stride_w) - k->left + (column * k->dilation_w);
            if ((in_y >= 0) && (in_y < k->in_h) && (in_x >= 0) && (in_x < k->in_w)) {
                float weight = k->weights[(((row * k->kernel_w) + column) * k->out_c) + c];
                sum += real_at(at(&k->in, in_y, in_x, c / k->times)) * weight;
            }
        }
    }
    return sum;
}

static void real_depthwise(const real_depthwise_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                float sum = real_depthwise_sum(k, y, x, c) + ((k->bias != NULL) ? k->bias[c] : 0.0f);
                set_real(at(&k->out, y, x, c), bounded(sum, k->low, k->high));
            }
        }
    }
}
