#include "compiler/formats/deepspeed/native/read/optimizer/muon_momentum.h"

#include <algorithm>

#include "compiler/formats/deepspeed/common/muon_groups.h"

namespace ucp::deepspeed {
namespace {

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

// The matrices that this partition has parts of, by their numbers.
std::vector<std::size_t> MatricesIn(const FlatGroup& group, std::size_t partition, std::int64_t partition_elements) {
  const std::int64_t begin = static_cast<std::int64_t>(partition) * partition_elements;
  std::vector<std::size_t> matrices;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const FlatParameter& parameter = group.parameters[i];
    const bool is_before = parameter.offset + parameter.elements <= begin;
    if (parameter.elements == 0 || is_before || parameter.offset >= begin + partition_elements) continue;
    matrices.push_back(i);
  }
  return matrices;
}

}  // namespace

void CutMuonMomentum(const FlatGroup& group, std::int64_t partition_elements,
                     const std::vector<GroupPartition*>& partitions) {
  if (!IsMuonGroup(*partitions.front()->hyper_parameters) || HasGaps(group)) return;
  const TensorPlace* example = nullptr;
  bool is_in_parts = true;
  bool is_whole = true;
  bool is_everywhere = true;
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    const Range whole = WholeParameters(group, p, partition_elements);
    auto found = partitions[p]->states.find(kMomentumState);
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
    auto [state, added] = partitions[p]->states.try_emplace(kMomentumState, nothing);
    TensorPlace& place = state->second;
    const std::int64_t before = static_cast<std::int64_t>(p) * partition_elements - whole.begin;
    if (!added) place.offset += before;
    place.elements = added ? 0 : std::min(partition_elements, whole.elements() - before);
    place.sizes = {partition_elements};
  }
}

std::vector<WholeMatrix> TakeMuonMomentum(const FlatGroup& group, std::int64_t partition_elements, bool is_on_cpu,
                                          const std::vector<GroupPartition*>& partitions) {
  if (!IsMuonGroup(*partitions.front()->hyper_parameters) || !HasGaps(group)) return {};
  std::vector<WholeMatrix> taken;
  bool is_in_parts = true;
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    const auto found = partitions[p]->states.find(kMomentumState);
    const bool is_there = found != partitions[p]->states.end();
    is_in_parts = is_in_parts && is_there && found->second.elements == partition_elements;
    if (is_there && (found->second.sizes.size() != 1 || !found->second.strides.empty())) return {};
    std::int64_t next = 0;
    for (std::size_t i : MatricesIn(group, p, partition_elements)) {
      if (!is_there) return {};  // Only a partition of padding alone has none.
      WholeMatrix matrix{i, found->second};
      matrix.momentum.offset += next;
      matrix.momentum.elements = group.parameters[i].elements;
      matrix.momentum.sizes = group.parameters[i].shape;
      next += matrix.momentum.elements;
      taken.push_back(std::move(matrix));
    }
    if (is_there && next != found->second.elements) return {};
  }
  if (is_in_parts && is_on_cpu) return {};
  for (GroupPartition* partition : partitions) partition->states.erase(kMomentumState);
  return taken;
}

}  // namespace ucp::deepspeed
