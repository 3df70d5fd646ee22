// An object of the source that no target has: loading it would run code that no framework of ours writes.
#pragma once

#include <string>

namespace ucp {

struct LeftOut {
  std::string file;    // Of the source, relative to its folder.
  std::string path;    // The keys in the file that lead to the entry that goes with it, joined with dots.
  std::string object;  // The class or function: "posix.system"
  std::string calls;   // The call that loading it would run: "posix.system('touch /tmp/x')"
  bool operator==(const LeftOut&) const = default;
};

}  // namespace ucp
