// Each parameter's place follows from the order in the stage's module and the sizes of the buckets (buckets.h). It is
// believed if each of its edges is one of a chunk, since Megatron Core stores each parameter's share, and the gaps
// between, as chunks of their own. The gaps hold nothing of meaning.
#include "compiler/formats/megatron/own_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>

#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/formats/megatron/buckets.h"
#include "compiler/formats/megatron/module_order.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::megatron {
namespace {

using dcp::Chunk;
using dcp::Entry;

constexpr std::int64_t kMostElements = std::int64_t{1} << 60;  // Of a bucket.
constexpr std::string_view kGroup = "optimizer.distributed.dp_group_idx_";
constexpr std::string_view kBuffer = ".gbuf_idx_0.dtype_";  // A second one would have parameters of another dtype.
constexpr std::string_view kBucket = ".bucket_idx_";

// "optimizer.distributed.dp_group_idx_3.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_2.exp_avg"
struct KeyOfBucket {
  std::int64_t group = 0;
  std::int64_t bucket = 0;
  std::string state;
};

std::optional<KeyOfBucket> ParseBucketKey(std::string_view key) {
  const std::size_t buffer = key.find(kBuffer);
  const std::size_t bucket = key.find(kBucket);
  if (!key.starts_with(kGroup) || buffer == key.npos || bucket == key.npos || bucket < buffer) return std::nullopt;
  const std::string_view rest = key.substr(bucket + kBucket.size());
  const std::size_t dot = rest.find('.');
  if (dot == rest.npos || dot + 1 == rest.size()) return std::nullopt;
  const auto group = dcp::AsNumber(key.substr(kGroup.size(), buffer - kGroup.size()));
  const auto number = dcp::AsNumber(rest.substr(0, dot));
  if (!group || !number) return std::nullopt;
  return KeyOfBucket{*group, *number, StateCalled(rest.substr(dot + 1))};
}

std::int64_t ElementsIn(const Chunk& chunk) {
  return std::accumulate(chunk.sizes.begin(), chunk.sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Part of a rank's own parameter: a gate and an up half are two, since other ranks have rows between them.
struct PlacedPart {
  const Entry* tensor = nullptr;
  std::size_t parameter = 0;  // Of the rank's own, in their order.
  const Chunk* part = nullptr;
  std::int64_t begin = 0;  // In the bucket.
  std::int64_t end = 0;
};

// The sizes in the value of such an object as [{(bfloat16, float32): [896, 768, 1024]}].
std::vector<std::int64_t> SizesIn(const ValuesOfObjects& objects, const std::string& name) {
  std::vector<std::int64_t> sizes;
  const auto found = objects.find(name);
  const auto* buffers = found == objects.end() ? nullptr : pytorch::Items(*found->second);
  const auto* entries = buffers && buffers->size() == 1 ? pytorch::Entries(*buffers->front()) : nullptr;
  const auto* numbers = entries && entries->size() == 1 ? pytorch::Items(*entries->front().value) : nullptr;
  if (numbers == nullptr) return sizes;
  for (const pytorch::ValuePtr& number : *numbers) sizes.push_back(pytorch::AsInteger(*number).value_or(-1));
  return sizes;
}

// The first difference between sizes of buckets, as a sentence; empty: there is none.
std::string Difference(std::string_view how, llvm::ArrayRef<std::int64_t> ours, std::string_view name,
                       llvm::ArrayRef<std::int64_t> said) {
  if (ours.size() != said.size()) {
    return fmt::format("{} of its buckets are stored, and `{}` says {}", ours.size(), name, said.size());
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i] == said[i]) continue;
    return fmt::format("{}bucket {} has {} elements, and `{}` says {}", how, i, ours[i], name, said[i]);
  }
  return "";
}

class Finder {
 public:
  Finder(const Keys& keys, const Arguments& arguments, const ValuesOfObjects& objects)
      : keys_(keys), arguments_(arguments), objects_(objects) {}

  OwnBuffers Find() {
    tensor_parallel_ = arguments_.Number("tensor_model_parallel_size").value_or(0);
    const StageOrder order = OrderOfStages(keys_.tensors, arguments_);
    const bool is_known = order.unread.empty() ? TakeBuckets() : Give(order.unread);
    if (!is_known) return std::move(result_);
    for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
      for (std::int64_t rank = 0; rank < tensor_parallel_; ++rank) {
        const std::int64_t group = rank + tensor_parallel_ * static_cast<std::int64_t>(stage);
        if (!TakeGroup(order.stages[stage], rank, group)) return std::move(result_);
      }
    }
    const auto groups = tensor_parallel_ * std::ssize(order.stages);
    if (std::ssize(buckets_) != groups) {
      Give(fmt::format("{} buffers are stored, and the arguments say {}", buckets_.size(), groups));
    }
    const auto bare = std::ranges::find_if(result_.ranges, [](const auto& tensor) {
      return std::ranges::find(tensor.second, kMasterState, &StoredRange::state) == tensor.second.end();
    });
    if (bare != result_.ranges.end()) Give(fmt::format("`{}` has no master", bare->first));
    return std::move(result_);
  }

 private:
  // Why it is not read; false, so that callers end with it.
  bool Give(std::string unread) {
    result_.unread = std::move(unread);
    return false;
  }

  bool TakeBuckets() {
    for (const Entry* entry : keys_.buffers) {
      const auto key = ParseBucketKey(entry->key);
      if (!key || entry->shape.size() != 1 || entry->shape.front() > kMostElements) {
        return Give(fmt::format("`{}` is not a bucket of the one buffer that a rank has", entry->key));
      }
      auto& states = buckets_[key->group][key->bucket];
      if (!states.empty() && states.begin()->second->shape != entry->shape) {
        const Entry& other = *states.begin()->second;
        return Give(fmt::format("`{}` has {} elements, and `{}` has {}", other.key, other.shape.front(), entry->key,
                                entry->shape.front()));
      }
      states[key->state] = entry;
    }
    if (tensor_parallel_ > 0) return true;
    return Give("`args.tensor_model_parallel_size` is missing, by which its buffers are numbered");
  }

  bool TakeGroup(const std::vector<ModuleParameter>& order, std::int64_t rank, std::int64_t group) {
    std::vector<std::vector<const Chunk*>> parts;
    std::vector<std::int64_t> elements;
    for (const ModuleParameter& parameter : order) {
      parts.push_back(PartsOf(parameter, rank));
      if (parts.back().empty()) {
        return Give(
            fmt::format("the chunks of `{}` are not those of {} ranks", parameter.tensor->key, tensor_parallel_));
      }
      std::int64_t& count = elements.emplace_back();
      for (const Chunk* part : parts.back()) count += ElementsIn(*part);
    }
    const auto sizes = SizesOf(group);
    if (!sizes) return false;
    const Placing placing = FillBuckets(elements, *sizes);
    if (!placing.unread.empty()) return Give(fmt::format("buffer {}: {}", group, placing.unread));
    std::vector<std::vector<PlacedPart>> placed(sizes->size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::int64_t begin = placing.places[i].begin;
      for (const Chunk* part : parts[i]) {
        const std::int64_t end = begin + ElementsIn(*part);
        placed[placing.places[i].bucket].push_back({order[i].tensor, i, part, begin, end});
        begin = end;
      }
    }
    for (std::size_t bucket = 0; bucket < placed.size(); ++bucket) {
      for (const auto& [state, entry] : buckets_.at(group).at(static_cast<std::int64_t>(bucket))) {
        if (!TakeState(state, *entry, placed[bucket])) return false;
      }
    }
    return true;
  }

  // The parts that a rank has: of a tensor that all ranks have, of one that is cut, or of one of two halves.
  std::vector<const Chunk*> PartsOf(const ModuleParameter& parameter, std::int64_t rank) const {
    std::vector<const Chunk*> all;
    for (const Chunk& chunk : parameter.tensor->chunks) {
      const bool is_of_layer = !parameter.layer || (!chunk.offsets.empty() && chunk.sizes.front() == 1 &&
                                                    chunk.offsets.front() == *parameter.layer);
      if (is_of_layer) all.push_back(&chunk);
    }
    const std::int64_t count = std::ssize(all);
    if (count == 1) return all;
    const auto at = static_cast<std::size_t>(rank);
    if (count == tensor_parallel_) return {all[at]};
    if (count != 2 * tensor_parallel_) return {};
    return {all[at], all[at + static_cast<std::size_t>(tensor_parallel_)]};
  }

  // The elements of each bucket of a buffer, if all that says them agrees.
  std::optional<std::vector<std::int64_t>> SizesOf(std::int64_t group) {
    std::vector<std::int64_t> sizes;
    const auto buckets = buckets_.find(group);
    for (std::int64_t i = 0; buckets != buckets_.end() && i < std::ssize(buckets->second); ++i) {
      const auto states = buckets->second.find(i);
      if (states == buckets->second.end()) break;
      sizes.push_back(states->second.begin()->second->shape.front());
    }
    const auto unpadded = SizesIn(objects_, NameOfObject(group, "per_bucket_numel_unpadded"));
    const std::string name = NameOfObject(group, "per_bucket_numel");
    const auto padded = SizesIn(objects_, name);
    const auto usual = Padded(sizes, 128);
    std::string unread = Difference("", sizes, name + "_unpadded", unpadded);
    if (unread.empty() && Padded(sizes, 65536) != padded)
      unread = Difference("with its padding, ", usual, name, padded);
    if (unread.empty()) return sizes;
    Give(fmt::format("buffer {}: {}", group, unread));
    return std::nullopt;
  }

  // As many as the ranks that share the buffer can share out evenly.
  std::vector<std::int64_t> Padded(std::vector<std::int64_t> sizes, std::int64_t multiple) const {
    constexpr std::int64_t kMostRanks = 1 << 20;
    const std::int64_t data = arguments_.Number("data_parallel_size").value_or(1);
    const std::int64_t context = arguments_.Number("context_parallel_size").value_or(1);
    const bool are_ranks = data > 0 && data <= kMostRanks && context > 0 && context <= kMostRanks;
    const std::int64_t common = std::lcm(are_ranks ? data * context : 1, multiple);
    for (std::int64_t& size : sizes) size = (size + common - 1) / common * common;
    return sizes;
  }

  // `parts`: in the order of the module.
  bool TakeState(const std::string& state, const Entry& entry, std::vector<PlacedPart> parts) {
    std::ranges::sort(parts, {}, &PlacedPart::begin);
    for (const Chunk& chunk : entry.chunks) {
      const std::int64_t begin = chunk.offsets.front();
      const std::int64_t end = begin + chunk.sizes.front();
      std::int64_t taken = 0;
      const PlacedPart* owner = nullptr;
      auto part = std::ranges::lower_bound(parts, begin + 1, {}, &PlacedPart::end);
      for (; part != parts.end() && part->begin < end; ++part) {
        const std::int64_t from = std::max(begin, part->begin);
        const std::int64_t elements = std::min(end, part->end) - from;
        const bool is_one_parameter = owner == nullptr || owner->parameter == part->parameter;
        taken = is_one_parameter ? taken + elements : 0;
        owner = &*part;
        result_.ranges[owner->tensor->key].push_back(
            {state, &chunk, from - begin, part->part, from - part->begin, elements});
      }
      if (owner == nullptr || taken == end - begin) continue;  // A gap, or all of it.
      return Give(fmt::format("the chunk of `{}` from element {} to {} is not one of `{}`, which would stand there",
                              entry.key, begin, end, owner->tensor->key));
    }
    return true;
  }

  const Keys& keys_;
  const Arguments& arguments_;
  const ValuesOfObjects& objects_;
  std::int64_t tensor_parallel_ = 0;
  // By number of the buffer, number of the bucket, and state.
  std::map<std::int64_t, std::map<std::int64_t, std::map<std::string, const Entry*>>> buckets_;
  OwnBuffers result_;
};

}  // namespace

std::string NameOfObject(std::int64_t group, std::string_view object) {
  return fmt::format("{}{}.{}", kGroup, group, object);
}

OwnBuffers FindRanges(const Keys& keys, const Arguments& arguments, const ValuesOfObjects& objects) {
  return Finder(keys, arguments, objects).Find();
}

}  // namespace ucp::megatron
