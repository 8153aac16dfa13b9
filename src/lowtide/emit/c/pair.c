/* @WHAT@, pair by pair. */
typedef struct {
    operand_t first, second;
    view_t out;
@FIELDS@} @NAME@_t;

static void @NAME@(const @NAME@_t *k, const box_t *box)
{
    int32_t count = box->c1 - box->c0;
    int32_t both = least(together(&k->first.view, count), together(&k->second.view, count));
    int32_t many = least(together(&k->out, count), both);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c += many) {
                const int8_t *first = operand_at(&k->first, y, x, c);
                const int8_t *second = operand_at(&k->second, y, x, c);
                int8_t *out = at(&k->out, y, x, c);
                for (j = 0; j < many; j++) {
                    @ELEMENT@ one = @LOAD@(&first[j * k->first.view.c]);
                    @ELEMENT@ other = @LOAD@(&second[j * k->second.view.c]);
                    @STORE@(&out[j * k->out.c], @RESULT@);
                }
            }
        }
    }
}
