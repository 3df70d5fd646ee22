// Paths between Python and here: bytes on the way in, since a system's paths need not be text, and text that can always
// be shown on the way out.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace ucp {

template <typename Owner>
Owner OwnerOf(std::string Owner::*);

template <auto kMember>
using PathOwner = decltype(OwnerOf(kMember));

template <auto kMember>
void SetPath(PathOwner<kMember>& owner, const nanobind::bytes& path) {
  (owner.*kMember).assign(path.c_str(), path.size());
}

template <auto kMember>
nanobind::str PathText(const PathOwner<kMember>& owner) {
  const std::string& path = owner.*kMember;
  return nanobind::steal<nanobind::str>(
      PyUnicode_DecodeUTF8(path.data(), static_cast<Py_ssize_t>(path.size()), "backslashreplace"));
}

}  // namespace ucp
