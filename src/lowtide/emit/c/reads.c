/* What an op of a loop needs of an operand before it runs at row r of one axis and row s of another: all positions of
   the operand up to row r * row_step + row_last and column s * column_step + column_last of it. */
typedef struct {
    int32_t row_step, row_first, row_last, rows;
    int32_t column_step, column_first, column_last, columns;
    int16_t maker;            /* node that makes the operand */
    int8_t row_axis, column_axis; /* which of the reader's axes these follow: 0 or 1 */
} read_t;

INLINED int32_t floor_zero(int32_t value, int32_t limit)
{
    return most(0, least(value, limit));
}

/* Positions of an operand that have to be there before its reader runs. */
INLINED int32_t needed(const read_t *read, int32_t first, int32_t second)
{
    int32_t row = ((read->row_axis == 0) ? first : second) * read->row_step;
    int32_t column = ((read->column_axis == 0) ? first : second) * read->column_step;
    int32_t row_end = floor_zero(row + read->row_last + 1, read->rows);
    int32_t column_end = floor_zero(column + read->column_last + 1, read->columns);
    if ((most(0, row + read->row_first) >= row_end) || (most(0, column + read->column_first) >= column_end)) {
        return 0; /* it reads the border alone */
    }
    return ((row_end - 1) * read->columns) + column_end;
}

/* The first node of some operands that has not come as far as is needed; -1: all have. */
INLINED int16_t first_missing(const read_t *operands, int32_t count, int32_t first, int32_t second)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        if (counters.done[operands[i].maker] < needed(&operands[i], first, second)) {
            return operands[i].maker;
        }
    }
    return -1;
}

