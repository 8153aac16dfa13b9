/* An arena laid out by lowtide, in C. From a clone:

       lowtide research zoo swiftnet_cell_a -o net.onnx
       lowtide research plan net.onnx --board stm32h743 --persistent features --header net_arena.h --table net_arena.txt
       gcc -std=c11 -Wall -Wextra -DARENA='"net_arena.h"' main.c -o main && ./main
*/
#include <stdint.h>
#include <stdio.h>
#include ARENA

#define NET(name) SWIFTNET_CELL_A_##name

/* On the board each of these goes into its memory with __attribute__((section(".dtcm"))) and the like. */
static _Alignas(NET(ARENA_DTCM_ALIGN)) uint8_t dtcm[NET(ARENA_DTCM_SIZE) + 1];
static _Alignas(NET(ARENA_AXI_ALIGN)) uint8_t axi[NET(ARENA_AXI_SIZE) + 1];
static _Alignas(NET(ARENA_D2_ALIGN)) uint8_t d2[NET(ARENA_D2_SIZE) + 1];
static _Alignas(NET(ARENA_D3_ALIGN)) uint8_t d3[NET(ARENA_D3_SIZE) + 1];

static uint8_t *const memories[NET(MEMORY_COUNT)] = {dtcm, axi, d2, d3};
static const uint32_t offsets[NET(TENSOR_COUNT)] = NET(TENSOR_OFFSETS);
static const uint32_t sizes[NET(TENSOR_COUNT)] = NET(TENSOR_SIZES);

int main(void) {
  uint8_t *features = memories[NET(T_features_MEMORY)] + NET(T_features_OFFSET);
  for (int i = 0; i < NET(T_features_SIZE); i++) features[i] = 1;
  printf("%d tensors; features: %d bytes at %d of memory %d; the first tensor: %u bytes at %u\n",
         NET(TENSOR_COUNT), NET(T_features_SIZE), NET(T_features_OFFSET), NET(T_features_MEMORY), (unsigned)sizes[0],
         (unsigned)offsets[0]);
  return 0;
}
