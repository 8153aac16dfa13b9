/* Elements of one operand where a condition holds, of another one where it does not. */
typedef struct {
    operand_t condition, first, second;
    view_t out;
    int32_t bytes;
} select_operand_t;

static void select_operand(const select_operand_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                int32_t holds = (*operand_at(&k->condition, y, x, c) != 0);
                const int8_t *from = operand_at((holds != 0) ? &k->first : &k->second, y, x, c);
                int8_t *to = at(&k->out, y, x, c);
                for (j = 0; j < k->bytes; j++) {
                    to[j] = from[j];
                }
            }
        }
    }
}
