/* Tensors beside each other, constants among them; each part is copied to where it begins. */
typedef struct {
    view_t in;
    box_t place;          /* in the result */
    const int8_t *values; /* of a constant; or none */
} piece_t;

typedef struct {
    view_t out;
    const piece_t *pieces;
    int32_t count, bytes;
} concat_t;

static void copy_piece(const concat_t *k, const piece_t *piece, const box_t *box)
{
    const box_t *place = &piece->place;
    const view_t *in = &piece->in;
    int32_t first = most(box->c0, place->c0);
    int32_t end = least(box->c1, place->c1);
    int32_t many = most(1, least(together(&k->out, end - first), together(in, end - first)));
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = most(box->y0, place->y0); y < least(box->y1, place->y1); y++) {
        for (x = most(box->x0, place->x0); x < least(box->x1, place->x1); x++) {
            for (c = first; c < end; c += many) {
                int32_t row = y - place->y0;
                int32_t column = x - place->x0;
                int32_t channel = c - place->c0;
                int32_t inside = (row * in->y) + (column * in->x) + (channel * in->c);
                const int8_t *from = (piece->values != NULL) ? &piece->values[inside] : at(in, row, column, channel);
                copy_numbers(at(&k->out, y, x, c), k->out.c, from, in->c, many, k->bytes);
            }
        }
    }
}

static void concat(const concat_t *k, const box_t *box)
{
    int32_t i;
    for (i = 0; i < k->count; i++) {
        copy_piece(k, &k->pieces[i], box);
    }
}
