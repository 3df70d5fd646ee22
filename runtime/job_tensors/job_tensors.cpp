#include "runtime/job_tensors/job_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

constexpr const char* kDeclaredAt = "the tensors that are to be filled";

class HeldLayout {
 public:
  HeldLayout(std::span<const JobTensorsOfRank> ranks, JobTensorParts parts) : ranks_(ranks), parts_(parts) {}

  llvm::Expected<LaidOutJobTensors> Run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      std::set<std::tuple<std::string_view, std::string_view, std::int64_t, DType>> seen;
      for (const JobTensor& held : ranks_[rank]) {
        UCP_ASSIGN_OR_RETURN(const std::int64_t place, Collect(static_cast<int>(rank), held));
        if (seen.insert({held.tensor, held.state, place, held.dtype}).second) continue;
        return Fail(ErrorCode::kUsage, "rank {} holds `{}` of tensor `{}` twice", rank, held.state, held.tensor);
      }
    }
    AddFiles();
    UCP_RETURN_IF_ERROR(Complete());
    AddLayouts();
    target_.readers = MakeReaders(static_cast<int>(ranks_.size()), readers_of_files_);
    target_.files.format = "memory";
    target_.files.mesh = target_.layout.mesh;
    return std::move(target_);
  }

 private:
  // One tensor over all ranks.
  struct OverRanks {
    BoxedTensor boxed;
    int first_rank = 0;
  };

  // The place of what is held among the boxes of its tensor.
  llvm::Expected<std::int64_t> Collect(int rank, const JobTensor& held) {
    OverRanks& tensor = tensors_.try_emplace(held.tensor, OverRanks{BoxedTensor(held.shape), rank}).first->second;
    if (tensor.boxed.shape() != held.shape) {
      return Fail(ErrorCode::kUsage, "tensor `{}` has the shape [{}] on rank {} and [{}] on rank {}", held.tensor,
                  fmt::join(tensor.boxed.shape(), ", "), tensor.first_rank, fmt::join(held.shape, ", "), rank);
    }
    if (!IsBoxOf(held.holds, held.shape)) {
      return Fail(ErrorCode::kUsage, "rank {} holds positions of tensor `{}` that its shape [{}] does not have", rank,
                  held.tensor, fmt::join(held.shape, ", "));
    }
    return tensor.boxed.PlaceOf(held.holds);
  }

  void AddLayouts() {
    Axis axis{kBoxAxis, 1};
    for (const auto& [name, tensor] : tensors_) {
      target_.layout.tensors.push_back(tensor.boxed.Layout(name, kDeclaredAt));
      axis.size = std::max(axis.size, tensor.boxed.boxes());
    }
    target_.layout.mesh.axes = {std::move(axis)};
  }

  void AddFiles() {
    using Key = std::tuple<std::string, std::string, std::int64_t, DType>;
    struct Holders {
      const JobTensor* held = nullptr;
      std::vector<int> ranks;
      std::vector<std::size_t> indices;  // In the ranks' own lists.
    };
    std::map<Key, Holders> holders_of;
    target_.records.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      target_.records[rank].resize(ranks_[rank].size());
      for (std::size_t i = 0; i < ranks_[rank].size(); ++i) {
        const JobTensor& held = ranks_[rank][i];
        const std::int64_t place = tensors_.at(held.tensor).boxed.PlaceOf(held.holds);
        Holders& holders = holders_of[{held.tensor, held.state, place, held.dtype}];
        holders.held = &held;
        holders.ranks.push_back(static_cast<int>(rank));
        holders.indices.push_back(i);
      }
    }
    for (const auto& [key, holders] : holders_of) {
      std::optional<RecordId> record = AddShard(*holders.held, std::get<std::int64_t>(key), holders.ranks);
      for (std::size_t i = 0; i < holders.ranks.size(); ++i) {
        target_.records[static_cast<std::size_t>(holders.ranks[i])][holders.indices[i]] = record;
      }
    }
  }

  std::optional<RecordId> AddShard(const JobTensor& held, std::int64_t place, const std::vector<int>& readers) {
    const std::int64_t elements = ElementsOf(held.holds);
    held_elements_[{held.tensor, held.state}][place] = elements;
    dtypes_.insert_or_assign({held.tensor, held.state}, held.dtype);
    if (elements == 0) return std::nullopt;
    Storage& storage = target_.files.storage;
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(ItemBytes(held.dtype));
    FileId file = storage.Add(StoredFile{fmt::format("buffer-{}", storage.files.size()), bytes, ""});
    readers_of_files_.push_back(readers);
    RecordId record = storage.Add(Record{file, 0, bytes, std::nullopt});
    BufferId buffer = storage.Add(Buffer{held.dtype, elements, {{record, 0, elements}}});
    Shard shard;
    shard.tensor = held.tensor;
    shard.coordinate.at[kBoxAxis] = place;
    for (const Positions& positions : held.holds) shard.shape.push_back(ElementsOf({positions}));
    shard.states = storage.Add(BufferSet{{held.state, buffer}});
    storage.shards.push_back(std::move(shard));
    return record;
  }

  // Boxes that overlap could hide a hole: that is left to the plan's verifier. A plan is of whole tensors, so what
  // nobody holds of one gets a file that nobody reads: it holds all of the tensor, which is one box and costs nothing.
  llvm::Error Complete() {
    for (auto& [key, elements_at] : held_elements_) {
      BoxedTensor& boxed = tensors_.at(key.first).boxed;
      const Box whole = WholeBox(boxed.shape());
      const std::int64_t elements = ElementsOf(whole);
      std::int64_t held = 0;
      for (const auto& [place, count] : elements_at) held += count;
      if (held >= elements) continue;
      if (parts_ == JobTensorParts::kSome) {
        const JobTensor rest{key.first, key.second, dtypes_.at(key), boxed.shape(), whole};
        AddShard(rest, boxed.PlaceOf(whole), {static_cast<int>(ranks_.size())});
        continue;
      }
      return Fail(ErrorCode::kUsage,
                  "the ranks hold {} of the {} elements of `{}` of tensor `{}`; all ranks that hold "
                  "a part of it must load together",
                  held, elements, key.second, key.first);
    }
    return llvm::Error::success();
  }

  std::span<const JobTensorsOfRank> ranks_;
  const JobTensorParts parts_;
  std::map<std::string, OverRanks> tensors_;  // By name.
  // By tensor and state, for each box.
  std::map<std::pair<std::string, std::string>, std::map<std::int64_t, std::int64_t>> held_elements_;
  std::map<std::pair<std::string, std::string>, DType> dtypes_;  // The same, in which one of them is held.
  LaidOutJobTensors target_;
  std::vector<std::vector<int>> readers_of_files_;  // By FileId.
};

}  // namespace

std::string Encode(const JobTensorsOfRank& held) {
  wire::ByteWriter writer;
  writer.Add(held.size());
  for (const JobTensor& tensor : held) {
    writer.Add(tensor.tensor);
    writer.Add(tensor.state);
    writer.Add(Name(tensor.dtype));
    writer.Add(tensor.second_names.size());
    for (const std::string& name : tensor.second_names) writer.Add(name);
    writer.Add(tensor.shape.size());
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      writer.Add(static_cast<std::uint64_t>(tensor.shape[d]));
      writer.Add(tensor.holds[d].size());
      for (const PositionRange& range : tensor.holds[d]) {
        writer.Add(static_cast<std::uint64_t>(range.begin));
        writer.Add(static_cast<std::uint64_t>(range.end));
      }
    }
  }
  return writer.bytes();
}

llvm::Expected<JobTensorsOfRank> DecodeJobTensors(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  JobTensorsOfRank held(reader.Count());
  for (JobTensor& tensor : held) {
    tensor.tensor = reader.Text();
    tensor.state = reader.Text();
    std::optional<DType> dtype = DTypeFromName(reader.Text());
    if (dtype) tensor.dtype = *dtype;
    if (!dtype) reader.Fail();
    tensor.second_names.resize(reader.Count());
    for (std::string& name : tensor.second_names) name = reader.Text();
    tensor.shape.resize(reader.Count());
    for (std::int64_t& length : tensor.shape) {
      length = static_cast<std::int64_t>(reader.Number());
      Positions& positions = tensor.holds.emplace_back(reader.Count());
      for (PositionRange& range : positions) {
        range.begin = static_cast<std::int64_t>(reader.Number());
        range.end = static_cast<std::int64_t>(reader.Number());
      }
    }
  }
  if (reader.is_at_end()) return held;
  return Fail(ErrorCode::kBadData, "another rank sent {} bytes that do not say what it holds; do all run one version?",
              bytes.size());
}

llvm::Expected<LaidOutJobTensors> LayOutJobTensors(std::span<const JobTensorsOfRank> ranks, JobTensorParts parts) {
  return HeldLayout(ranks, parts).Run();
}

}  // namespace ucp
