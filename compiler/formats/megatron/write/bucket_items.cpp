// A bucket is one vector. Each box of a parameter's part is a chunk of it, and so is each gap: Megatron Core asks for
// the gaps too, which hold nothing of meaning.
#include "compiler/formats/megatron/write/bucket_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/megatron/rules/buckets.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::megatron {
namespace {

using pytorch::ValuePtr;

// A tensor that is trained, and where each of its boxes is: in which part, behind how many elements of it.
struct Trained {
  std::size_t tensor = 0;  // Of the request.
  dcp::Entry entry;        // Its chunks are the parts that ranks have.
  struct BoxInPart {
    std::size_t box = 0;
    std::int64_t begin = 0;
    std::int64_t elements = 0;
  };
  std::vector<std::vector<BoxInPart>> boxes;  // By part.
  std::vector<std::int64_t> copies;           // By part: how many ranks had it so far.
};

// A part of a parameter in a bucket.
struct Placed {
  const Trained* trained = nullptr;
  std::size_t part = 0;
  std::size_t holder = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

bool IsIn(const dcp::WrittenChunk& box, const dcp::Chunk& part) {
  for (std::size_t d = 0; d < part.sizes.size(); ++d) {
    const std::int64_t behind = box.offsets[d] - part.offsets[d];
    if (behind < 0 || behind + box.sizes[d] > part.sizes[d]) return false;
  }
  return true;
}

class Adder {
 public:
  Adder(const BucketTarget& of,
        llvm::function_ref<llvm::Error(const RanksBuffer&, const std::vector<BufferObject>&)> take)
      : of_(of), take_(take) {}

  llvm::Error Run() {
    for (std::size_t t = 0; t < of_.request.tensors.size(); ++t) {
      if (FindState(of_.request.tensors[t], kMasterState) != nullptr) AddTrained(t);
    }
    std::vector<const dcp::Entry*> entries;
    for (const auto& [key, trained] : trained_) entries.push_back(&trained.entry);
    std::optional<llvm::Error> failure;
    const auto take = [&](const RanksBuffer& buffer) {
      llvm::Error error = Take(buffer);
      if (error) failure = std::move(error);
      return !failure;
    };
    const std::string unknown = ForEachBuffer(entries, of_.arguments, take);
    if (failure) return *std::move(failure);
    if (unknown.empty()) return CheckAllArePlaced();
    return Fail(ErrorCode::kUnsupported,
                "the states cannot be written in the optimizer's own buffers (`dp_reshardable`): {}; "
                "`optimizer=fully_reshardable` needs none of this",
                unknown);
  }

 private:
  // Layers behind `args.num_layers` are in no stage.
  llvm::Error CheckAllArePlaced() const {
    for (const auto& [key, trained] : trained_) {
      if (std::ranges::find(trained.copies, 0) == trained.copies.end()) continue;
      return Fail(
          ErrorCode::kUnsupported,
          "`{}` has states of the optimizer, and by `args`, with `args.num_layers` of {}, not all of them have a "
          "place in the optimizer's own buffers (`dp_reshardable`); `optimizer=fully_reshardable` needs none of "
          "this",
          key, of_.arguments.Number("num_layers").value_or(0));
    }
    return llvm::Error::success();
  }

  // Its boxes are those of the parts, one part after the other.
  void AddTrained(std::size_t t) {
    const LogicalTensor& tensor = of_.request.tensors[t];
    Trained& trained = trained_[tensor.name];
    trained.tensor = t;
    trained.entry.key = tensor.name;
    trained.entry.is_tensor = true;
    trained.entry.shape = tensor.shape;
    trained.entry.chunks = PartsOf(t);
    trained.boxes.resize(trained.entry.chunks.size());
    trained.copies.resize(trained.entry.chunks.size());
    std::size_t part = 0;
    for (std::size_t b = 0; b < of_.items.BoxesOf(t); ++b) {
      const dcp::WrittenChunk box = of_.items.BoxOf(t, b);
      while (!IsIn(box, trained.entry.chunks[part])) ++part;
      const dcp::Chunk& chunk = trained.entry.chunks[part];
      std::int64_t begin = 0;
      std::int64_t elements = 1;
      for (std::size_t d = 0; d < box.sizes.size(); ++d) {
        begin = begin * chunk.sizes[d] + box.offsets[d] - chunk.offsets[d];
        elements *= box.sizes[d];
      }
      trained.boxes[part].push_back({b, begin, elements});
    }
  }

  std::vector<dcp::Chunk> PartsOf(std::size_t t) const {
    const LogicalTensor& tensor = of_.request.tensors[t];
    std::vector<dcp::Chunk> parts(1);
    const auto& cut = of_.equal_parts.at(tensor.name);
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      const std::int64_t count = d < cut.size() ? cut[d] : 1;
      std::vector<dcp::Chunk> longer;
      for (const dcp::Chunk& part : parts) {
        for (std::int64_t i = 0; i < count; ++i) {
          longer.push_back(part);
          longer.back().offsets.push_back(i * (tensor.shape[d] / count));
          longer.back().sizes.push_back(tensor.shape[d] / count);
        }
      }
      parts = std::move(longer);
    }
    return parts;
  }

  // The copies of a tied embedding stand in buckets of their own.
  bool IsTied(const dcp::Entry& tensor) const {
    return tensor.key == kWordEmbeddings && of_.arguments.Number("pipeline_model_parallel_size").value_or(1) > 1 &&
           !trained_.contains(std::string(kHead));
  }

  llvm::Error Take(const RanksBuffer& buffer) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    std::vector<bool> are_alone;
    for (const BufferParameter& parameter : buffer.parameters) are_alone.push_back(IsTied(*parameter.tensor));
    const auto most = buffer.stage == 0 ? of_.arguments.ElementsOfBucket() : std::nullopt;
    const Buckets buckets = DealIntoBuckets(buffer.elements(), are_alone, most);
    std::vector<std::vector<Placed>> placed(buckets.sizes.size());
    for (std::size_t i = buffer.parameters.size(); i-- > 0;) {
      auto [bucket, begin] = buckets.places[i];
      Trained& trained = trained_.at(buffer.parameters[i].tensor->key);
      for (const dcp::Chunk* chunk : buffer.parameters[i].parts) {
        const auto part = static_cast<std::size_t>(chunk - trained.entry.chunks.data());
        const std::int64_t end = begin + ElementsIn(*chunk);
        placed[bucket].push_back({&trained, part, HolderOf(trained, part), begin, end});
        begin = end;
      }
    }
    for (std::size_t bucket = 0; bucket < placed.size(); ++bucket) {
      UCP_RETURN_IF_ERROR(AddBucket(buffer, bucket, buckets.sizes[bucket], placed[bucket]));
    }
    return take_(buffer, {{buffer.Object("per_bucket_numel"), SizesOf(Padded(buffer, buckets.sizes))},
                          {buffer.Object("per_bucket_numel_unpadded"), SizesOf(buckets.sizes)}});
  }

  // Each rank that has a part has a copy of its states, apart from the weight: holders of the same states are copies of
  // one another, each element of which counts once in digests.
  std::size_t HolderOf(Trained& trained, std::size_t part) {
    const auto copy = static_cast<std::size_t>(trained.copies[part]++);
    std::vector<std::size_t>& holders = holders_[trained.tensor];
    while (holders.size() <= copy) holders.push_back(of_.items.AddHolder(trained.tensor));
    return holders[copy];
  }

  llvm::Error AddBucket(const RanksBuffer& buffer, std::size_t bucket, std::int64_t size,
                        const std::vector<Placed>& placed) {
    const auto& states = of_.request.tensors[placed.front().trained->tensor].states;
    for (const Placed& part : placed) {
      const LogicalTensor& tensor = of_.request.tensors[part.trained->tensor];
      if (tensor.states == states) continue;
      return Fail(ErrorCode::kUnsupported, "`{}` and `{}`, which share a bucket of the optimizer, have other states",
                  part.trained->entry.key, placed.front().trained->entry.key);
    }
    for (const LogicalTensor::State& state : states) {
      if (state.name == kWeightState) continue;
      const std::string key =
          fmt::format("{}.gbuf_idx_0.dtype_({}, {}).bucket_idx_{}.{}", buffer.key(), TorchName(of_.weight),
                      TorchName(of_.gradient), bucket, state.name == kMasterState ? "param" : state.name);
      UCP_ASSIGN_OR_RETURN(dcp::WrittenEntry * entry, of_.folder.NewEntry({key}));
      entry->is_tensor = true;
      entry->dtype = state.dtype;
      entry->shape = {size};
      std::int64_t end = 0;
      for (const Placed& part : placed) {
        AddGap(*entry, end, part.begin);
        for (const auto& [box, begin, elements] : part.trained->boxes[part.part]) {
          of_.items.AddBox(of_.folder, *entry, {part.holder, state.name, state.dtype, box},
                           {.offsets = {part.begin + begin}, .sizes = {elements}});
        }
        end = part.end;
      }
      AddGap(*entry, end, size);
    }
    return llvm::Error::success();
  }

  void AddGap(dcp::WrittenEntry& entry, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    const SharedArchive*& archive = gaps_[{entry.dtype, end - begin}];
    if (archive == nullptr) {
      ArchiveComposer composer(of_.request.training);
      std::string zeros(static_cast<std::size_t>((end - begin) * ItemBytes(entry.dtype)), '\0');
      const ValuePtr tensor = composer.AddData(entry.dtype, {end - begin}, std::move(zeros));
      archive = &of_.archives.emplace_back(Share(of_.target, composer.Compose(tensor)));
    }
    entry.chunks.push_back({.offsets = {begin}, .sizes = {end - begin}});
    of_.folder.AddKnownChunk(archive);
  }

  std::vector<std::int64_t> Padded(const RanksBuffer& buffer, std::vector<std::int64_t> sizes) const {
    const std::int64_t multiple =
        std::lcm(buffer.copies, of_.arguments.IsSet("ddp_pad_buckets_for_high_nccl_busbw") ? 65536 : 128);
    for (std::int64_t& size : sizes) size = (size + multiple - 1) / multiple * multiple;
    return sizes;
  }

  // [{(torch.bfloat16, torch.float32): [896, 768]}]
  ValuePtr SizesOf(const std::vector<std::int64_t>& sizes) const {
    std::vector<ValuePtr> numbers;
    for (const std::int64_t size : sizes) numbers.push_back(pytorch::MakeInteger(size));
    ValuePtr dtypes =
        pytorch::MakeTuple({pytorch::MakeDTypeGlobal(of_.weight), pytorch::MakeDTypeGlobal(of_.gradient)});
    return pytorch::MakeList({pytorch::MakeDict({{std::move(dtypes), pytorch::MakeList(std::move(numbers))}})});
  }

  static std::string TorchName(DType dtype) { return fmt::format("torch.{}", Name(dtype)); }

  const BucketTarget& of_;
  const llvm::function_ref<llvm::Error(const RanksBuffer&, const std::vector<BufferObject>&)> take_;
  std::map<std::string, Trained> trained_;                   // By name.
  std::map<std::size_t, std::vector<std::size_t>> holders_;  // By tensor: for each copy.
  std::map<std::pair<DType, std::int64_t>, const SharedArchive*> gaps_;
};

}  // namespace

llvm::Error AddBuckets(
    const BucketTarget& of,
    llvm::function_ref<llvm::Error(const RanksBuffer&, const std::vector<BufferObject>& sizes)> take) {
  return Adder(of, take).Run();
}

}  // namespace ucp::megatron
