// The one hash of the core: what spreads numbers over 64 bits.
#pragma once

#include <cstdint>

namespace tide {

// 2^64 over the golden ratio, odd: its multiples visit every word, and neighbours lie far apart.
inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// Every bit of `z` moves about half of the bits, and no two words have one image: the last steps of SplitMix64 (Steele,
// Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// A word of its own for each i: SplitMix64's number i, from seed 0. The exclusive-or over the elements of a set is the
// set's hash, which adding an element or taking one out changes by one word (Zobrist 1970).
constexpr uint64_t scatter(int i) { return mix((static_cast<uint64_t>(i) + 1) * kGolden); }

}  // namespace tide
