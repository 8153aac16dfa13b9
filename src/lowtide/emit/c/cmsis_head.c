/* @TITLE@

   Made by lowtide; make it again when the model changes. C99 with CMSIS-NN's functions (and memcpy, memmove), no heap,
   no recursion. The arena has the scratch that CMSIS-NN asks for when it is compiled for: @SIMD@. */
#include "model.h"
#include "model_weights.h"

#include <arm_nnfunctions.h>
@INCLUDES@#include <stddef.h>
#include <string.h>

/* As TFLite Micro computes where it is built with TFLITE_SINGLE_ROUNDING. */
#ifndef MODEL_SINGLE_ROUNDING
#ifdef CMSIS_NN_USE_SINGLE_ROUNDING
#define MODEL_SINGLE_ROUNDING 1
#else
#define MODEL_SINGLE_ROUNDING 0
#endif
#endif

#ifndef MODEL_GUARD
#define MODEL_GUARD 0
#endif
@CHECKS@
/* Tensors, rows and scratch at the plan's addresses. MODEL_ARENA: name of an array of the application that is used
   instead, of MODEL_ARENA_BYTES or more, at a multiple of 8; models that run one after the other can share it. */
#ifdef MODEL_ARENA
extern int8_t MODEL_ARENA[];
#define arena_bytes MODEL_ARENA
#else
static union {
    int64_t aligned;
    int8_t bytes[MODEL_GUARD + MODEL_ARENA_BYTES + MODEL_GUARD];
} arena;
#define arena_bytes arena.bytes
#endif

static inline int8_t *bytes_at(int32_t place)
{
    return &arena_bytes[MODEL_GUARD + place];
}

