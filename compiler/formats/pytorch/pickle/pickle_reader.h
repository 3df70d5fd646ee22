// Reads the pickle of a PyTorch file (or one that Python's own pickler wrote, protocols 2 to 5) into a tree of values.
// An allow-listed interpreter of pickle's stack machine: it knows the instructions that build data and refuses all
// others, and it never imports, calls or allocates on the say-so of the file.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

struct PickleLimits {
  std::size_t bytes = std::size_t{512} << 20;  // Of the pickle.
  int depth = 200;                             // Nesting of the values.
  bool local_of_dtensors = false;              // Take DTensors for what this rank has of them; otherwise refuse them.
};

struct Pickle {
  ValuePtr root;
  std::vector<std::shared_ptr<const Storage>> storages;  // Each key once, in order of first appearance.
};

// Time and memory are linear in the input: memory is at most a fixed multiple of it. Errors are kBadData (kUnsupported
// for forms that we understand and do not serve, such as sparse tensors), one sentence with the byte offset.
llvm::Expected<Pickle> ReadPickle(std::string_view bytes, const PickleLimits& limits = {});

// The pickle that stands at the beginning of `bytes`, when others follow it.
struct LeadingPickle {
  llvm::Expected<Pickle> pickle;
  std::size_t bytes = 0;      // How long it is.
  std::uint64_t missing = 0;  // It failed because `bytes` end within it: so many more are needed at the least.
};
LeadingPickle ReadLeadingPickle(std::string_view bytes, const PickleLimits& limits = {});

// The header pickles of the ranks of one checkpoint are often equal; a cache reads equal ones once. Safe to use from
// several threads, of which two may read the same at the same time, and one's counts.
class PickleCache {
 public:
  llvm::Expected<std::shared_ptr<const Pickle>> Read(std::string_view bytes, const PickleLimits& limits = {});

 private:
  std::mutex mutex_;  // Protects the next.
  std::unordered_map<std::string, std::shared_ptr<const Pickle>> by_content_;
};

}  // namespace ucp::pytorch
