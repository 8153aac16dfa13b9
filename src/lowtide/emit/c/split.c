/* Parts of a tensor, each copied to a tensor of its own; the box is of the operand. */
typedef struct {
    view_t out;
    box_t place; /* in the operand */
} split_piece_t;

typedef struct {
    view_t in;
    const split_piece_t *pieces;
    int32_t count, bytes;
} split_parts_t;

static void copy_part(const split_parts_t *k, const split_piece_t *piece, const box_t *box)
{
    const box_t *place = &piece->place;
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = most(box->y0, place->y0); y < least(box->y1, place->y1); y++) {
        for (x = most(box->x0, place->x0); x < least(box->x1, place->x1); x++) {
            for (c = most(box->c0, place->c0); c < least(box->c1, place->c1); c++) {
                const int8_t *from = at(&k->in, y, x, c);
                int8_t *to = at(&piece->out, y - place->y0, x - place->x0, c - place->c0);
                for (j = 0; j < k->bytes; j++) {
                    to[j] = from[j];
                }
            }
        }
    }
}

static void split_parts(const split_parts_t *k, const box_t *box)
{
    int32_t i;
    for (i = 0; i < k->count; i++) {
        copy_part(k, &k->pieces[i], box);
    }
}
