/* Products of one row with a matrix; `sums`: of each row of the matrix, times the offset of the input, and the bias. */
typedef struct {
    place_t in, out;
    int32_t depth, channels;
    int32_t in_offset, out_offset, low, high;
    int32_t per_channel;
    const int8_t *weights;
    const void *bias; /* int32_t, of 16 bits int64_t; or none */
    const int32_t *multiplier, *shift;
    const int32_t *sums;
} product_t;

