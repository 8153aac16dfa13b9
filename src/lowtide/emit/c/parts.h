
/* The same, with several inputs part by part as they come: begin, then of the input that model_wants tells (its number in
   the order above, from 0 on; -1: the result is there) the next part, in the order of its bytes. model_feed returns what
   model_wants does then. The caller's bytes are free again after each call. */
#define MODEL_HANDED_OVER @COUNT@ /* inputs */
@PARTS@
void model_begin(@HELD@);
int model_wants(void);
int model_feed(const int8_t *part);
void model_result(@OUTS@);
