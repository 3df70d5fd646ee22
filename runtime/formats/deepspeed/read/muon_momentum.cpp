#include "runtime/formats/deepspeed/read/muon_momentum.h"

#include <algorithm>

#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {
namespace {

constexpr const char* kMomentum = "momentum_buffer";

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t elements() const { return end - begin; }
};

// The whole parameters that this partition has parts of; empty if it has none.
Range WholeParameters(const FlatGroup& group, std::size_t partition, std::int64_t partition_elements) {
  const std::int64_t begin = static_cast<std::int64_t>(partition) * partition_elements;
  const std::int64_t end = begin + partition_elements;
  Range whole{begin, begin};
  for (const FlatParameter& parameter : group.parameters) {
    const std::int64_t parameter_end = parameter.offset + parameter.elements;
    if (parameter.elements == 0 || parameter.offset >= end || parameter_end <= begin) continue;
    whole.begin = std::min(whole.begin, parameter.offset);
    whole.end = parameter_end;
  }
  return whole;
}

bool HasGaps(const FlatGroup& group) {
  std::int64_t end = 0;
  for (const FlatParameter& parameter : group.parameters) {
    if (parameter.offset != end) return true;
    end += parameter.elements;
  }
  return false;
}

bool IsMuonGroup(const GroupPartition& partition) {
  pytorch::ValuePtr use_muon = pytorch::Find(*partition.hyper_parameters, "use_muon");
  return use_muon && pytorch::AsBool(*use_muon).value_or(false);
}

}  // namespace

void CutMuonMomentum(const FlatGroup& group, std::int64_t partition_elements,
                     const std::vector<GroupPartition*>& partitions) {
  if (!IsMuonGroup(*partitions.front()) || HasGaps(group)) return;
  const TensorPlace* example = nullptr;
  bool is_in_parts = true;
  bool is_whole = true;
  bool is_everywhere = true;
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    const Range whole = WholeParameters(group, p, partition_elements);
    auto found = partitions[p]->states.find(kMomentum);
    if (found == partitions[p]->states.end()) {
      if (whole.elements() > 0) return;  // A partition of padding alone has none.
      is_everywhere = false;
      continue;
    }
    example = &found->second;
    is_in_parts = is_in_parts && example->elements == partition_elements;
    is_whole = is_whole && example->elements == whole.elements();
    if (example->sizes.size() != 1 || !example->strides.empty()) return;
  }
  if ((is_in_parts && is_everywhere) || !is_whole || example == nullptr) return;
  const TensorPlace nothing = *example;
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    const Range whole = WholeParameters(group, p, partition_elements);
    auto [state, added] = partitions[p]->states.try_emplace(kMomentum, nothing);
    TensorPlace& place = state->second;
    const std::int64_t before = static_cast<std::int64_t>(p) * partition_elements - whole.begin;
    if (!added) place.offset += before;
    place.elements = added ? 0 : std::min(partition_elements, whole.elements() - before);
    place.sizes = {partition_elements};
  }
}

}  // namespace ucp::deepspeed
