#include "runtime/engine/source_of_nodes.h"

#include <llvm/ADT/ArrayRef.h>

namespace ucp {
namespace {

void Visit(std::uint64_t offset, llvm::ArrayRef<ByteRows::Loop> loops,
           llvm::function_ref<void(std::uint64_t offset)> visit) {
  if (loops.empty()) return visit(offset);
  for (std::uint64_t i = 0; i < loops.back().count; ++i) {
    Visit(offset + i * loops.back().stride_bytes, loops.drop_back(), visit);
  }
}

}  // namespace

void ForEachRow(const ByteRows& rows, llvm::function_ref<void(std::uint64_t offset)> visit) {
  Visit(rows.offset, rows.loops, visit);
}

}  // namespace ucp
