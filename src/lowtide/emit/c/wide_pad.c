/* A tensor of wider numbers with a border of one value. */
typedef struct {
    view_t in, out;
    int32_t bytes, in_h, in_w, in_c, top, left, front, value;
} wide_pad_t;

static void wide_pad(const wide_pad_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                int32_t row = y - k->top;
                int32_t column = x - k->left;
                int32_t channel = c - k->front;
                int32_t inside = ((row >= 0) && (row < k->in_h) && (column >= 0) && (column < k->in_w)
                                  && (channel >= 0) && (channel < k->in_c));
                int32_t value = (inside != 0) ? wide_at(at(&k->in, row, column, channel), k->bytes) : k->value;
                set_wide(at(&k->out, y, x, c), k->bytes, value);
            }
        }
    }
}
