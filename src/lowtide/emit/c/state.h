
/* What the model keeps from one run to the next, and what forgets it. */
#define MODEL_STATE_BYTES @STATE@ /* static */
void model_reset(void);
