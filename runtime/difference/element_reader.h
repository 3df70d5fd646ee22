// Elements of a checkpoint by their places in whole tensors, whichever way its ranks cut them: a plan onto whole
// tensors is asked for the steps of any part, and the steps are read into memory.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <span>
#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/plan/steps.h"
#include "compiler/support/parallel.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/chunk_maker.h"
#include "runtime/engine/source_files.h"

namespace ucp {

class ElementReader {
 public:
  // The plan must be verified and outlive this, and not cast (a plan onto whole tensors). Replicas are not compared.
  ElementReader(const Plan& plan, const std::string& root, ReadableFileSystem& files, const BufferSizes& sizes,
                unsigned threads, bool verify_checksums);

  // Checks that all files are those that the plan was made from.
  [[nodiscard]] llvm::Error Begin(const ParallelOptions& options) { return source_.CheckSizes(options); }

  // Returns the elements of `range` (a part of one that ForEachTargetRange gave), which fit into the chunk of a thread;
  // valid until the thread's next call. One call at a time for each thread.
  llvm::Expected<std::span<const std::byte>> Read(unsigned thread, const TargetRange& range);

  // The known parts of checksums, on their way to the rank that calls End(). Only while nobody reads.
  void Save(wire::ByteWriter& writer) const { source_.Save(writer); }
  void Restore(wire::ByteReader& reader) { source_.Restore(reader); }

  // The checksums of all records that were touched, and that no file was changed meanwhile.
  [[nodiscard]] llvm::Error End(const ParallelOptions& options);

 private:
  Buffers buffers_;
  StepEnumerator steps_;
  SourceFiles source_;
  ChunkMaker maker_;
};

}  // namespace ucp
