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
    int32_t first = most(box->c0, place->c0);
    int32_t end = least(box->c1, place->c1);
    int32_t many = most(1, least(together(&k->in, end - first), together(&piece->out, end - first)));
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = most(box->y0, place->y0); y < least(box->y1, place->y1); y++) {
        for (x = most(box->x0, place->x0); x < least(box->x1, place->x1); x++) {
            for (c = first; c < end; c += many) {
                int8_t *to = at(&piece->out, y - place->y0, x - place->x0, c - place->c0);
                copy_numbers(to, piece->out.c, at(&k->in, y, x, c), k->in.c, many, k->bytes);
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
