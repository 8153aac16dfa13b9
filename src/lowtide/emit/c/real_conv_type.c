/* Convolutions of numbers with a point, and products with weights. Weights: channel, row, column, input. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w, depth, filters; /* channels of the input and of the result in a group */
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
    float low, high;
    const float *weights;
    const float *bias; /* or none */
} real_conv_t;
