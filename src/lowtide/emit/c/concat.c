/* Tensors beside each other; each part is copied to where it begins. */
typedef struct {
    view_t in;
    box_t place; /* in the result */
} piece_t;

typedef struct {
    view_t out;
    const piece_t *pieces;
    int32_t count;
} concat_t;

static void copy_piece(const piece_t *piece, const view_t *out, const box_t *box)
{
    const box_t *place = &piece->place;
    int32_t first = most(box->c0, place->c0);
    int32_t end = least(box->c1, place->c1);
    int32_t many = most(1, least(together(out, end - first), together(&piece->in, end - first)));
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = most(box->y0, place->y0); y < least(box->y1, place->y1); y++) {
        for (x = most(box->x0, place->x0); x < least(box->x1, place->x1); x++) {
            for (c = first; c < end; c += many) {
                const int8_t *in = at(&piece->in, y - place->y0, x - place->x0, c - place->c0);
                int8_t *to = at(out, y, x, c);
                for (j = 0; j < many; j++) {
                    to[j * out->c] = in[j * piece->in.c];
                }
            }
        }
    }
}

static void concat(const concat_t *k, const box_t *box)
{
    int32_t i;
    for (i = 0; i < k->count; i++) {
        copy_piece(&k->pieces[i], &k->out, box);
    }
}
