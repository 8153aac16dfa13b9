// What the bindings of all searches share: Python's lock, its interrupts, and rules by name.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <map>
#include <string>

namespace bind {

namespace nb = nanobind;

// Runs a search without Python's lock.
template <class Run>
auto unlocked(const Run& run) {
  const nb::gil_scoped_release released;
  return run();
}

// Whether the user has asked for an interrupt; it is forgotten then, for the search ends with the best it has. What
// another handler of a signal raises is the caller's, and ends the search. Python's lock is held.
inline bool interrupted() {
  if (PyErr_CheckSignals() == 0) return false;
  nb::python_error error;
  if (!error.matches(PyExc_KeyboardInterrupt)) throw error;
  return true;
}

// What a search calls now and then from without the lock: whether to stop, because of an interrupt or as `report`
// answers. An interrupt while it answers is one, too. `report` may be None, and has to outlive the search.
template <class... A>
std::function<bool(A...)> reporter(nb::handle report) {
  return [report](A... given) {
    const nb::gil_scoped_acquire locked;
    if (interrupted()) return true;
    if (report.is_none()) return false;
    try {
      return nb::cast<bool>(report(given...));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      return true;
    }
  };
}

using Named = std::map<std::string, bool>;

// The rules of `on`, but for those named otherwise. KeyError if there is none of a name.
template <class Rules>
Rules with(Rules on, const Named& switches) {
  for (const auto& [name, value] : switches) {
    bool* const rule = on.named(name);
    if (rule == nullptr) throw nb::key_error(name.c_str());
    *rule = value;
  }
  return on;
}

}  // namespace bind
