/* An op of a loop, or an input of which the caller hands over one position after the other; an op that runs whole is a
   loop of one node of one position. */
typedef struct {
    int32_t positions, width; /* width: rows of the second axis; 1 if there is none */
    void (*run)(int32_t first, int32_t second); /* at rows of both axes; or none: the caller brings it */
    int16_t (*missing)(int32_t first, int32_t second); /* a node that has to run before that, or -1 */
    int16_t input;            /* which of those that the caller brings */
    int16_t first_follower, followers; /* nodes that run as far as they can after this one */
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
