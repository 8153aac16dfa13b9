/* What an op of a loop needs of an operand before it runs at row r of one axis and row s of another: all positions of
   the operand up to row r * row_step + row_last and column s * column_step + column_last of it. */
typedef struct {
    int32_t row_step, row_first, row_last, rows;
    int32_t column_step, column_first, column_last, columns;
    int16_t maker;            /* node that makes the operand */
    int8_t row_axis, column_axis; /* which of the reader's axes these follow: 0 or 1 */
} read_t;

/* An op of a loop, or an input of which the caller hands over one position after the other; an op that runs whole is a
   loop of one node of one position. */
typedef struct {
    int32_t positions, width; /* width: rows of the second axis; 1 if there is none */
    int32_t height_all, width_all, channels_all;
    int16_t kernel, index;    /* which kernel, with which of its parameters */
    int16_t first_read, reads;
    int16_t first_follower, followers; /* nodes that run as far as they can after this one */
    int8_t axes[2];           /* dimension of the result that an axis runs along: 0 rows, 1 columns, 2 channels */
    int8_t leaves;            /* whether it has to be finished in the end */
    int8_t aside;             /* whether the last node of the loop needs nothing of it */
@GUARDS@} node_t;

typedef struct {
    int16_t first, count; /* the last one of these nodes drives */
} loop_t;

static struct {
    int32_t done[MOST_NODES]; /* positions that are made, of each node of the loop that runs */
    int16_t waiting[MOST_NODES];
    int16_t depth;
    int16_t finishing;
    int16_t loop;
} counters;
