/* An operand: a tensor, or a constant of the model. Its view has steps of 0 along what it is repeated over. */
typedef struct {
    view_t view;
    const int8_t *values; /* of a constant; or none */
} operand_t;

static const int8_t *operand_at(const operand_t *operand, int32_t y, int32_t x, int32_t c)
{
    const view_t *v = &operand->view;
    if (operand->values != NULL) {
        return &operand->values[(y * v->y) + (x * v->x) + (c * v->c)];
    }
    return at(v, y, x, c);
}
