// Arithmetic of rows: divisions that round down and up, and ranges.
#pragma once

#include <cstdint>
#include <utility>

namespace tide {

using RowRange = std::pair<int64_t, int64_t>;  // rows [first, second)

inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

inline bool empty(RowRange rows) { return rows.first >= rows.second; }

}  // namespace tide
