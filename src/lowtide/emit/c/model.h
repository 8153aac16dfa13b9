/* @TITLE@

   Made by lowtide; make it again when the model changes. One run at a time: its memory is static. */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_ARENA_BYTES @ARENA@  /* static: tensors and kept rows */
@BANKS@#define MODEL_COUNTER_BYTES @COUNTERS@  /* static: counters of the schedule */
#define MODEL_WEIGHT_BYTES @WEIGHTS@ /* constants */
#define MODEL_MACS @MACS@
#define MODEL_INPUT_BYTES @INPUT@  /* of all inputs */
#define MODEL_OUTPUT_BYTES @OUTPUT@ /* of all outputs */
@ENDS@

/* Runs the model once. A real number is (integer - zero point) * scale. Returns 0. */
int model_run(@RUN@);
@STREAM@
#if defined(MODEL_GUARD) && (MODEL_GUARD > 0)
void model_guard_set(void);   /* marks bytes on both sides of the arena */
int model_guard_intact(void); /* 1: nothing was written there */
#endif

#ifdef __cplusplus
}
#endif

#endif
