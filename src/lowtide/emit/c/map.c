/* @WHAT@, element by element. */
typedef struct {
    view_t in, out;
@FIELDS@} @NAME@_t;

static void @NAME@(const @NAME@_t *k, const box_t *box)
{
    int32_t count = box->c1 - box->c0;
    int32_t many = least(together(&k->out, count), together(&k->in, count));
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c += many) {
                const int8_t *in = at(&k->in, y, x, c);
                int8_t *out = at(&k->out, y, x, c);
                for (j = 0; j < many; j++) {
                    @ELEMENT@ value = @LOAD@(&in[j * k->in.c]);
                    @STORE@(&out[j * k->out.c], @RESULT@);
                }
            }
        }
    }
}
