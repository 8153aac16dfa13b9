/* A channel of 16 bits of a part of an operand, added to what came before it; the first part begins at row and column 0. */
static int32_t wide_added_up(const view_t *in, const box_t *box, int32_t c, int32_t sums)
{
    int32_t sum = ((box->y0 == 0) && (box->x0 == 0)) ? 0 : sum_at(sums, c);
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            sum += half_at(at(in, y, x, c));
        }
    }
    return sum;
}

