/* Convolutions of 16 bits, depthwise ones, and products with weights. Weights of a convolution: channel, row, column,
   input; of a depthwise one: row, column, channel. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w, in_c, times; /* times: channels of the result for each of the input, in depthwise ones */
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
    int32_t in_zero, out_zero, low, high;
    const int8_t *weights;
    const int64_t *bias; /* or none */
    const int32_t *multiplier;
    const int8_t *shift;
} wide_layer_t;

