/* @WHAT@ along some dimensions, of an operand that comes part by part; the box is of the operand. */
typedef struct {
    view_t in, out;
    int32_t sizes[3]; /* rows, columns and channels of the operand */
    int32_t follows[3]; /* the result's dimension that each of them follows; -1: it is reduced */
@FIELDS@} @NAME@_t;

static void @NAME@(const @NAME@_t *k, const box_t *box)
{
    int32_t place[3];
    int32_t i;
    for (place[0] = box->y0; place[0] < box->y1; place[0]++) {
        for (place[1] = box->x0; place[1] < box->x1; place[1]++) {
            for (place[2] = box->c0; place[2] < box->c1; place[2]++) {
                int32_t to[3] = {0, 0, 0};
                int32_t first = 1;
                int32_t last = 1;
                int8_t *result;
                @ELEMENT@ value = @LOAD@(at(&k->in, place[0], place[1], place[2]));
                @ELEMENT@ total;
                for (i = 0; i < 3; i++) {
                    if (k->follows[i] >= 0) {
                        to[k->follows[i]] = place[i];
                    } else {
                        first = (place[i] == 0) ? first : 0;
                        last = (place[i] == (k->sizes[i] - 1)) ? last : 0;
                    }
                }
                result = at(&k->out, to[0], to[1], to[2]);
                total = @INITIAL@;
                if (first == 0) {
                    total = @LOAD@(result);
                }
                total = @STEP@;
                if (last != 0) {
                    total = @RESULT@;
                }
                @STORE@(result, total);
            }
        }
    }
}
