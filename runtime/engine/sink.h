// The receiving end of a run: a folder of files (folder_sink.h), the memory of a job (runtime/load/memory_sink.h), or a
// visitor that looks at every element (visit_sink.h). The engine (engine.h) reads, compares, adds and casts; a sink
// decides which elements this rank wants, in which order, and where they go.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>

#include "runtime/wire/byte_codec.h"

namespace ucp {

class Engine;

// The work of one rank, for its progress.
struct SinkSize {
  std::uint64_t bytes_before = 0;  // Of elements: an earlier run wrote them.
  std::uint64_t bytes_left = 0;    // This run writes them.
  std::uint64_t files = 0;
};

// All ranks of a run call each function, in this order.
class Sink {
 public:
  virtual ~Sink() = default;

  virtual SinkSize Size() const = 0;
  // Makes room for the elements. A failure of one rank is a failure of all.
  [[nodiscard]] virtual llvm::Error Prepare(Engine& engine) = 0;
  // Asks the engine for all elements that this rank wants.
  [[nodiscard]] virtual llvm::Error Fill(Engine& engine) = 0;
  // If Fill() was cancelled on some rank: keeps the progress that can be resumed. Nothing is called after it.
  [[nodiscard]] virtual llvm::Error KeepUnfinished(Engine&) { return llvm::Error::success(); }
  // After all ranks have filled theirs. A failure of one rank is a failure of all.
  [[nodiscard]] virtual llvm::Error Finish(Engine&) { return llvm::Error::success(); }

  // Returns the sums of this rank that rank 0 joins: part by part, ascending, where the sink is in parts, with
  // EndPart() behind each.
  virtual int PartOf(int /*rank*/) const { return 0; }
  virtual void Save(wire::ByteWriter&) const {}
  virtual void Take(int /*rank*/, wire::ByteReader&) {}
  [[nodiscard]] virtual llvm::Error EndPart(int /*part*/) { return llvm::Error::success(); }
};

}  // namespace ucp
