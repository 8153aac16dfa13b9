// How a search ended.
#pragma once

namespace tide {

enum class Stopped {
  kProof,      // the best is proved to be that
  kComplete,   // it did all that it does
  kTime,       // no seconds were left
  kMemory,     // what it remembers would not have fitted
  kInterrupt,  // it was asked to
};

}  // namespace tide
