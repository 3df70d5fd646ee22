#include "compiler/verifier/step_signature.h"

#include <algorithm>

namespace ucp {
namespace {

// Where a shard is cut. One that lies in a single part of a long vector is not cut at all.
void AddCuts(Spread spread, std::int64_t base, std::int64_t elements, const Buffer& buffer, StepSignature& signature) {
  const auto parts = static_cast<std::int64_t>(buffer.parts.size());
  const bool may_be_cut = parts > 1 && elements > 0;
  if (may_be_cut && spread == Spread::kEachTensor) {
    signature.insert(signature.end(), {1, parts});
  } else if (may_be_cut && base / buffer.part_elements != (base + elements - 1) / buffer.part_elements) {
    signature.insert(signature.end(), {2, buffer.part_elements, base % buffer.part_elements});
  } else {
    signature.push_back(0);
  }
}

std::int64_t Number(SetId set) { return static_cast<std::int64_t>(set.index()); }

std::int64_t PiecesOf(const PlanWrite& write, TensorId tensor) {
  return std::count_if(write.pieces.begin(), write.pieces.end(),
                       [&](const WrittenPiece& piece) { return piece.tensor == tensor; });
}

void AddPiece(const PlanWrite& write, const WrittenPiece& piece, StepSignature& signature) {
  signature.push_back(Number(piece.set));
  if (!write.fused) return;
  signature.insert(signature.end(), {piece.begin, std::ssize(piece.strides)});
  signature.insert(signature.end(), piece.strides.begin(), piece.strides.end());
}

}  // namespace

StepSignatures::StepSignatures(const Plan& plan, const StepEnumerator& steps)
    : plan_(plan), steps_(steps), feeds_(plan), source_(plan.source), target_(plan.target) {}

std::optional<StepSignature> StepSignatures::Of(std::size_t w, TensorId tensor, const StateBuffer& state,
                                                const StepEnumerator::Reads& reads) const {
  const PlanWrite& write = plan_.writes[w];
  const std::int64_t elements = plan_.LocalElements(write);
  if (!target_.Fits(write.spread, write.base, elements, state.buffer)) return std::nullopt;
  StepSignature signature = {plan_.tensor(tensor).arithmetic.terms, steps_.IsRepeated(w, state.state) ? 1 : 0,
                             write.fused ? elements : -1, PiecesOf(write, tensor)};
  for (const WrittenPiece& piece : write.pieces) {
    if (piece.tensor == tensor) AddPiece(write, piece, signature);
  }
  AddCuts(write.spread, write.base, elements, plan_.target.buffer(state.buffer), signature);
  for (std::size_t r : reads) {
    const PlanRead& read = plan_.reads[r];
    std::optional<BufferId> buffer = feeds_.Find(read, state.state);
    signature.push_back(buffer ? 1 : 0);
    if (!buffer) continue;
    const std::int64_t held = plan_.set(read.set).local_elements();
    // Strides lead to places that no count of elements tells of.
    if (!read.strides.empty() || !source_.Fits(read.spread, read.base, held, *buffer)) return std::nullopt;
    signature.insert(signature.end(), {static_cast<std::int64_t>(read.role), read.term, Number(read.set)});
    AddCuts(read.spread, read.base, held, plan_.source.buffer(*buffer), signature);
  }
  return signature;
}

}  // namespace ucp
