/* Convolutions and pools. A call has the rows that it reads as its input, and padding where they end at a border. */
typedef struct {
    place_t in, out;
    int32_t in_h, in_w, in_c, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left;
    int32_t in_offset, out_offset, low, high;
    int32_t scratch, scratch_bytes;
    const int8_t *weights;
    const void *bias; /* int32_t, of 16 bits int64_t; or none */
    const int32_t *multiplier, *shift;
} rows_t;

/* What a call has: dimensions, padding and scratch. */
typedef struct {
    cmsis_nn_dims in, out;
    cmsis_nn_tile padding;
    cmsis_nn_context context;
    const int8_t *from;
    int8_t *to;
} stripe_t;

static stripe_t stripe(const rows_t *k, int32_t y, int32_t rows)
{
    int32_t first = (y * k->stride_h) - k->top;
    int32_t end = first + ((rows - 1) * k->stride_h) + ((k->kernel_h - 1) * k->dilation_h) + 1;
    int32_t low = (first < 0) ? 0 : first;
    int32_t high = (end > k->in_h) ? k->in_h : end;
    stripe_t s = {{1, high - low, k->in_w, k->in_c},
                  {1, rows, k->out_w, k->out_c},
                  {k->left, low - first},
                  {bytes_at(k->scratch), k->scratch_bytes},
                  row_at(&k->in, low),
                  row_at(&k->out, y)};
    return s;
}

