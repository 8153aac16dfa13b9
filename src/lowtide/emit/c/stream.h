
/* The same, with the input row by row as it comes: begin, then rows in order, any number at a time. The caller's bytes
   are free again after each call. model_feed_rows returns 1 while it wants more and 0 once the result is there; rows
   after that are left out. */
#define MODEL_HANDED_OVER 1 /* inputs */
#define MODEL_ROW_BYTES @ROW@
#define MODEL_ROWS @ROWS@
void model_begin(@HELD@);
int model_feed_rows(const int8_t *rows, int32_t count);
void model_result(@OUTS@);
