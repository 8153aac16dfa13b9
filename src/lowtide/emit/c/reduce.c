/* @WHAT@ along some dimensions, in the order of the operand's elements. */
typedef struct {
    view_t in, out;
    int32_t sizes[3]; /* rows, columns and channels of the operand */
    int32_t follows[3]; /* the result's dimension that each of them follows; -1: it is reduced */
@FIELDS@} @NAME@_t;

static void @NAME@(const @NAME@_t *k, const box_t *box)
{
    int32_t place[3];
    int32_t begin[3];
    int32_t end[3];
    int32_t i;
    int32_t y;
    int32_t x;
    int32_t c;
    for (place[0] = box->y0; place[0] < box->y1; place[0]++) {
        for (place[1] = box->x0; place[1] < box->x1; place[1]++) {
            for (place[2] = box->c0; place[2] < box->c1; place[2]++) {
                @ELEMENT@ total = @INITIAL@;
                for (i = 0; i < 3; i++) {
                    begin[i] = (k->follows[i] >= 0) ? place[k->follows[i]] : 0;
                    end[i] = (k->follows[i] >= 0) ? (begin[i] + 1) : k->sizes[i];
                }
                for (y = begin[0]; y < end[0]; y++) {
                    for (x = begin[1]; x < end[1]; x++) {
                        for (c = begin[2]; c < end[2]; c++) {
                            @ELEMENT@ value = @LOAD@(at(&k->in, y, x, c));
                            total = @STEP@;
                        }
                    }
                }
                @STORE@(at(&k->out, place[0], place[1], place[2]), @RESULT@);
            }
        }
    }
}
