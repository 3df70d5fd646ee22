// A read is a stored shard of the source, used or not, and a write one of the target; equal sets have one number. So
// both lists are compared, without regard to their order. A shard that is read in parts, since another one gives the
// rest, differs from all that are written: such a source is not called the same.
#include "compiler/plan/kept_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace ucp {
namespace {

// Kinds of buffer sets, numbered as they come: by their states, dtypes and parts.
class Kinds {
 public:
  // `base` counts only where parts cut the buffer.
  std::size_t Of(const StorageTables& tables, BufferSetId states, std::int64_t base, Spread spread) {
    text_.clear();
    for (const StateBuffer& state : tables.buffer_set(states)) {
      const Buffer& buffer = tables.buffer(state.buffer);
      fmt::format_to(std::back_inserter(text_), "{} {} {}", state.state, Name(buffer.dtype), buffer.parts.size());
      if (buffer.parts.size() > 1) {
        fmt::format_to(std::back_inserter(text_), " {} {} {}", buffer.part_elements, base, static_cast<int>(spread));
      }
      text_ += '\n';
    }
    return numbers_.try_emplace(text_, numbers_.size()).first->second;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::string text_;
};

using StoredShard = std::tuple<TensorId, SetId, std::size_t>;  // Of a kind.

bool IsPlain(const Plan& plan) {
  return std::ranges::all_of(plan.tensors, [](const PlanTensor& tensor) { return tensor.arithmetic == Arithmetic(); });
}

}  // namespace

bool KeepsCuts(const Plan& plan) {
  if (plan.source_format != plan.target_format || plan.reads.size() != plan.writes.size() || !IsPlain(plan)) {
    return false;
  }
  Kinds kinds;
  std::vector<StoredShard> written;
  for (const PlanWrite& write : plan.writes) {
    if (write.fused || write.pieces.size() != 1) return false;
    const WrittenPiece& piece = write.pieces.front();
    written.emplace_back(piece.tensor, piece.set, kinds.Of(plan.target, write.states, write.base, write.spread));
  }
  std::vector<StoredShard> read;
  for (const PlanRead& one : plan.reads) {
    if (!one.strides.empty()) return false;
    read.emplace_back(one.tensor, one.set, kinds.Of(plan.source, one.states, one.base, one.spread));
  }
  std::ranges::sort(written);
  std::ranges::sort(read);
  return written == read;
}

}  // namespace ucp
