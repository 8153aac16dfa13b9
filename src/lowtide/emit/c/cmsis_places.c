/* Where a tensor lies; `front`: which of `fronts` counts the rows that its row buffer no longer has, -1: it is
   complete. */
typedef struct {
    int32_t at, row_bytes;
    int16_t front;
} place_t;

/* A call: the next `rows` rows of a layer; none: its segment begins. From MOVES on `layer` is a move: `rows` rows at the
   front are dropped. */
typedef struct {
    uint16_t layer, rows;
} step_t;

/* Steps that repeat. */
typedef struct {
    uint16_t first, count, times;
} run_of_steps_t;

/* Of a row buffer: where rows that are still needed move. */
typedef struct {
    place_t place;
    int32_t kept;
} move_t;

static int16_t fronts[FRONTS];

static int8_t *row_at(const place_t *place, int32_t row)
{
    int32_t first = (place->front < 0) ? 0 : fronts[place->front];
    return bytes_at(place->at + ((row - first) * place->row_bytes));
}

