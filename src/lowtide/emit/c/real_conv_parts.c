/* Products whose operand comes some channels at a time, added up in the result; the box is of the operand. */
typedef real_conv_t real_conv_parts_t;

static void real_conv_parts(const real_conv_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t d;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = 0; c < k->filters; c++) {
                int8_t *to = at(&k->out, y, x, c);
                float sum = (box->c0 == 0) ? 0.0f : real_at(to);
                for (d = box->c0; d < box->c1; d++) {
                    sum += real_at(at(&k->in, y, x, d)) * k->weights[(c * k->depth) + d];
                }
                if (box->c1 == k->depth) {
                    sum = bounded(sum + ((k->bias != NULL) ? k->bias[c] : 0.0f), k->low, k->high);
                }
                set_real(to, sum);
            }
        }
    }
}
