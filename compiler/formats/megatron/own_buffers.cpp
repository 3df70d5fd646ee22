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
#include "compiler/formats/megatron/rules/buckets.h"
#include "compiler/formats/megatron/rules/rank_buffers.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::megatron {
namespace {

using dcp::Chunk;
using dcp::Entry;

constexpr std::int64_t kMostElements = std::int64_t{1} << 60;  // Of a bucket.
constexpr std::string_view kBuffer = ".gbuf_idx_0.dtype_";     // A second one would have parameters of another dtype.
constexpr std::string_view kBucket = ".bucket_idx_";

// "optimizer.distributed.dp_group_idx_3.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_2.exp_avg"
struct KeyOfBucket {
  std::string buffer;  // "optimizer.distributed.dp_group_idx_3"
  std::int64_t bucket = 0;
  std::string state;
};

std::optional<KeyOfBucket> ParseBucketKey(std::string_view key) {
  const std::size_t buffer = key.find(kBuffer);
  const std::size_t bucket = key.find(kBucket);
  if (buffer == key.npos || bucket == key.npos || bucket < buffer) return std::nullopt;
  const std::string_view rest = key.substr(bucket + kBucket.size());
  const std::size_t dot = rest.find('.');
  if (dot == rest.npos || dot + 1 == rest.size()) return std::nullopt;
  const auto number = dcp::AsNumber(rest.substr(0, dot));
  if (!number) return std::nullopt;
  return KeyOfBucket{std::string(key.substr(0, buffer)), *number, StateCalled(rest.substr(dot + 1))};
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
    if (!TakeBuckets()) return std::move(result_);
    const auto take = [this](const RanksBuffer& buffer) { return TakeBuffer(buffer); };
    if (std::string unread = ForEachBuffer(keys_.tensors, arguments_, take); !unread.empty()) Give(std::move(unread));
    if (!result_.unread.empty()) return std::move(result_);
    if (std::ssize(buckets_) != taken_) {
      Give(fmt::format("{} buffers are stored, and the arguments say {}", buckets_.size(), taken_));
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
      auto& states = buckets_[key->buffer][key->bucket];
      if (!states.empty() && states.begin()->second->shape != entry->shape) {
        const Entry& other = *states.begin()->second;
        return Give(fmt::format("`{}` has {} elements, and `{}` has {}", other.key, other.shape.front(), entry->key,
                                entry->shape.front()));
      }
      states[key->state] = entry;
    }
    return true;
  }

  bool TakeBuffer(const RanksBuffer& buffer) {
    ++taken_;
    const auto sizes = SizesOf(buffer);
    if (!sizes) return false;
    const Placing placing = FillBuckets(buffer.elements(), *sizes);
    if (!placing.unread.empty()) return Give(fmt::format("`{}`: {}", buffer.key(), placing.unread));
    std::vector<std::vector<PlacedPart>> placed(sizes->size());
    for (std::size_t i = 0; i < buffer.parameters.size(); ++i) {
      std::int64_t begin = placing.places[i].begin;
      for (const Chunk* part : buffer.parameters[i].parts) {
        const std::int64_t end = begin + ElementsIn(*part);
        placed[placing.places[i].bucket].push_back({buffer.parameters[i].tensor, i, part, begin, end});
        begin = end;
      }
    }
    for (std::size_t bucket = 0; bucket < placed.size(); ++bucket) {
      for (const auto& [state, entry] : buckets_.at(buffer.key()).at(static_cast<std::int64_t>(bucket))) {
        if (!TakeState(state, *entry, placed[bucket])) return false;
      }
    }
    return true;
  }

  // The elements of each bucket of a buffer, if all that says them agrees.
  std::optional<std::vector<std::int64_t>> SizesOf(const RanksBuffer& buffer) {
    std::vector<std::int64_t> sizes;
    const auto buckets = buckets_.find(buffer.key());
    for (std::int64_t i = 0; buckets != buckets_.end() && i < std::ssize(buckets->second); ++i) {
      const auto states = buckets->second.find(i);
      if (states == buckets->second.end()) break;
      sizes.push_back(states->second.begin()->second->shape.front());
    }
    const std::string unpadded = buffer.Object("per_bucket_numel_unpadded");
    const std::string padded = buffer.Object("per_bucket_numel");
    const auto said = SizesIn(objects_, padded);
    std::string unread = Difference("", sizes, unpadded, SizesIn(objects_, unpadded));
    if (unread.empty() && Padded(sizes, std::lcm(buffer.copies, 65536)) != said) {
      unread = Difference("with its padding, ", Padded(sizes, std::lcm(buffer.copies, 128)), padded, said);
    }
    if (unread.empty()) return sizes;
    Give(fmt::format("`{}`: {}", buffer.key(), unread));
    return std::nullopt;
  }

  // As many as the ranks that share the buffer can share out evenly.
  static std::vector<std::int64_t> Padded(std::vector<std::int64_t> sizes, std::int64_t multiple) {
    for (std::int64_t& size : sizes) size = (size + multiple - 1) / multiple * multiple;
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
  // By the buffer's key, number of the bucket, and state.
  std::map<std::string, std::map<std::int64_t, std::map<std::string, const Entry*>>> buckets_;
  std::int64_t taken_ = 0;  // Buffers.
  OwnBuffers result_;
};

}  // namespace

OwnBuffers FindRanges(const Keys& keys, const Arguments& arguments, const ValuesOfObjects& objects) {
  return Finder(keys, arguments, objects).Find();
}

}  // namespace ucp::megatron
