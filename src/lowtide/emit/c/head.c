/* @TITLE@

   Made by lowtide; make it again when the model changes. C99, no library but memcpy and memset, no heap, no
   recursion. Shifts of negative numbers to the right keep the sign, as on every compiler that TFLite Micro is built
   with. */
#include "model.h"
#include "model_weights.h"

@INCLUDES@#include <stddef.h>
#include <string.h>

/* 1: as TFLite Micro computes where it is built with TFLITE_SINGLE_ROUNDING. */
#ifndef MODEL_SINGLE_ROUNDING
#define MODEL_SINGLE_ROUNDING 0
#endif

#ifndef MODEL_GUARD
#define MODEL_GUARD 0
#endif


#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* no multiplication and addition in one: gcc's ISO modes have it so */
#endif
