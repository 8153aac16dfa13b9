// Results as Python sees them: read-only fields, each with a line on what it is. They can be printed and pickled.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>

#include "base/stopped.h"

namespace bind {

namespace nb = nanobind;

template <class T, class D>
struct Field {
  const char* name;
  D T::* member;
  const char* doc;
};

// Binds a struct that has a default for each field. `__match_args__` of the class lists the fields' names.
template <class T, class... D>
void record(nb::module_& m, const char* name, const char* doc, Field<T, D>... fields) {
  nb::class_<T> type(m, name, doc);
  (type.def_ro(fields.name, fields.member, fields.doc), ...);
  type.attr("__match_args__") = nb::make_tuple(fields.name...);
  type.def("__repr__", [](nb::handle self) {
    std::string text = nb::cast<std::string>(self.type().attr("__name__")) + "(";
    const char* comma = "";
    for (nb::handle field : self.type().attr("__match_args__")) {
      text += comma + nb::cast<std::string>(field) + "=" + nb::repr(self.attr(field)).c_str();
      comma = ", ";
    }
    return text + ")";
  });
  type.def(
      "__getstate__", [=](const T& self) { return std::tuple<D...>(self.*fields.member...); },
      nb::sig("def __getstate__(self) -> tuple"));
  type.def(
      "__setstate__",
      [=](T& self, std::tuple<D...> state) {
        new (&self) T();
        std::apply([&](D&... value) { ((self.*fields.member = std::move(value)), ...); }, state);
      },
      nb::sig("def __setstate__(self, state: tuple) -> None"));
}

}  // namespace bind

// An enumeration of the core as Python's strings: NAMES are those of its values, in order, LITERAL the type in the
// stub.
#define TIDE_NAMED(ENUM, LITERAL, ...)                                                        \
  template <>                                                                                 \
  struct nanobind::detail::type_caster<ENUM> {                                                \
    static constexpr const char* kNames[] = {__VA_ARGS__};                                    \
    NB_TYPE_CASTER(ENUM, const_name("typing.Literal[" LITERAL "]"))                           \
    bool from_python(handle source, uint8_t, cleanup_list*) noexcept {                        \
      const char* text = PyUnicode_Check(source.ptr()) ? PyUnicode_AsUTF8(source.ptr()) : ""; \
      int i = 0;                                                                              \
      for (const char* name : kNames) {                                                       \
        if (text && std::string_view(text) == name) {                                         \
          value = static_cast<ENUM>(i);                                                       \
          return true;                                                                        \
        }                                                                                     \
        ++i;                                                                                  \
      }                                                                                       \
      PyErr_Clear();                                                                          \
      return false;                                                                           \
    }                                                                                         \
    static handle from_cpp(ENUM value, rv_policy, cleanup_list*) noexcept {                   \
      return PyUnicode_FromString(kNames[static_cast<int>(value)]);                           \
    }                                                                                         \
  };

TIDE_NAMED(tide::Stopped, "'proof', 'complete', 'time', 'memory', 'interrupt'", "proof", "complete", "time", "memory",
           "interrupt")
