/* Convolutions, and products with weights, which are convolutions of one tap. Weights: channel, row, column, input. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w, in_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
    int32_t in_zero, out_zero, low, high;
    const int8_t *weights;
    const int32_t *bias; /* or none */
    const int32_t *multiplier;
    const int8_t *shift;
} conv_t;

