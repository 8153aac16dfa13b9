/* A tensor with a border that mirrors it; with the outermost elements twice where `offset` is 0. */
typedef struct {
    view_t in, out;
    int32_t sizes[3], before[3];
    int32_t offset, bytes;
} mirror_t;

static int32_t mirrored(int32_t place, int32_t before, int32_t size, int32_t offset)
{
    int32_t inside = place - before;
    if (inside < 0) {
        return offset - 1 - inside;
    }
    return (inside < size) ? inside : ((2 * size) - 1 - offset - inside);
}

static void mirror(const mirror_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = box->y0; y < box->y1; y++) {
        int32_t row = mirrored(y, k->before[0], k->sizes[0], k->offset);
        for (x = box->x0; x < box->x1; x++) {
            int32_t column = mirrored(x, k->before[1], k->sizes[1], k->offset);
            for (c = box->c0; c < box->c1; c++) {
                const int8_t *from = at(&k->in, row, column, mirrored(c, k->before[2], k->sizes[2], k->offset));
                int8_t *to = at(&k->out, y, x, c);
                for (j = 0; j < k->bytes; j++) {
                    to[j] = from[j];
                }
            }
        }
    }
}
