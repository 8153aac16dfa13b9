/* Transposed convolutions of @WHAT@. Weights: channel, row, column, input. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w, in_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, top, left;
@FIELDS@} @NAME@_t;

/* The row or column of the input that a tap of a row or column of the result reads; -1: none. */
static int32_t @NAME@_source(int32_t place, int32_t tap, int32_t stride, int32_t size)
{
    int32_t from = place - tap;
    return ((from >= 0) && ((from % stride) == 0) && ((from / stride) < size)) ? (from / stride) : -1;
}

/* Input pixels in their order: the taps run backwards. */
static @SUM@ @NAME@_sum(const @NAME@_t *k, int32_t y, int32_t x, int32_t c)
{
    @SUM@ sum = 0;
    int32_t row;
    int32_t column;
    int32_t d;
    for (row = k->kernel_h - 1; row >= 0; row--) {
        int32_t in_y = @NAME@_source(y + k->top, row, k->stride_h, k->in_h);
        for (column = k->kernel_w - 1; column >= 0; column--) {
            int32_t in_x = @NAME@_source(x + k->left, column, k->stride_w, k->in_w);
            if ((in_y >= 0) && (in_x >= 0)) {
                int32_t weight = ((((c * k->kernel_h) + row) * k->kernel_w) + column) * k->in_c;
                for (d = 0; d < k->in_c; d++) {
                    sum += @PRODUCT@;
                }
            }
        }
    }
    return sum;
}

static void @NAME@(const @NAME@_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                @SUM@ sum = @NAME@_sum(k, y, x, c);
                sum += (k->bias != NULL) ? k->bias[c] : 0;
                @STORE@(at(&k->out, y, x, c), @RESULT@);
            }
        }
    }
}
