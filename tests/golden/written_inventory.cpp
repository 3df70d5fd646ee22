#include "tests/golden/written_inventory.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <vector>

#include "compiler/layout/fact_value.h"
#include "compiler/support/error.h"

namespace ucp::golden {
namespace {

llvm::StringRef Ref(std::string_view text) { return {text.data(), text.size()}; }

// "pp=0..1 tp=2": every axis with its first and last index.
struct AxisRange {
  std::string axis;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class InventoryReader {
 public:
  llvm::Expected<WrittenInventory> Run(std::string_view spec) {
    llvm::SmallVector<llvm::StringRef> lines;
    Ref(spec).split(lines, '\n');
    for (llvm::StringRef line : lines) {
      if (!line.consume_front("// ")) continue;
      auto [word, rest] = line.split(": ");
      if (llvm::Error error = Read(word, rest.trim()))
        return AddContext(std::move(error), fmt::format("`{}`", line.str()));
    }
    return std::move(written_);
  }

 private:
  llvm::Error Read(llvm::StringRef word, llvm::StringRef rest) {
    if (word == "mesh") return ReadMesh(rest, written_.inventory.mesh);
    if (word == "to") return ReadDegrees(rest, written_.to.emplace());
    if (word == "fact") return ReadFact(rest);
    if (word == "set") return ReadSet(rest);
    if (word == "tensor") return ReadTensor(rest);
    if (word == "row parallel") {
      CutStatement& cuts = written_.inventory.cuts;
      if (!std::holds_alternative<EmbeddedLayout>(cuts)) cuts.emplace<EmbeddedLayout>().where = "metadata.pt";
      std::get<EmbeddedLayout>(cuts).row_parallel.push_back(rest.str());
    }
    if (word == "alias") {
      auto [second, first] = rest.split(" = ");
      written_.inventory.aliases[second.str()] = first.str();
    }
    return llvm::Error::success();
  }

  static llvm::Expected<std::int64_t> Number(llvm::StringRef text) {
    std::int64_t number = 0;
    if (text.trim().getAsInteger(10, number)) return Fail(ErrorCode::kUsage, "`{}` is no number", text.str());
    return number;
  }

  static llvm::Expected<std::vector<AxisRange>> Axes(llvm::StringRef text) {
    llvm::SmallVector<llvm::StringRef> words;
    text.split(words, ' ', -1, false);
    std::vector<AxisRange> axes;
    for (llvm::StringRef word : words) {
      auto [axis, indices] = word.split('=');
      auto [first_text, last_text] = indices.split("..");
      UCP_ASSIGN_OR_RETURN(std::int64_t first, Number(first_text));
      UCP_ASSIGN_OR_RETURN(std::int64_t last, Number(last_text.empty() ? first_text : last_text));
      axes.push_back({axis.str(), first, last});
    }
    return axes;
  }

  static llvm::Error ReadMesh(llvm::StringRef text, Mesh& mesh) {
    UCP_ASSIGN_OR_RETURN(std::vector<AxisRange> axes, Axes(text));
    for (const AxisRange& axis : axes) mesh.axes.push_back({axis.axis, axis.first});
    return llvm::Error::success();
  }

  // As a mesh, with `interleave=2`, and with `pp=8+8+6` for stages (or chunks) that have so many layers.
  static llvm::Error ReadDegrees(llvm::StringRef text, Degrees& degrees) {
    llvm::SmallVector<llvm::StringRef> words;
    text.split(words, ' ', -1, false);
    for (llvm::StringRef word : words) {
      auto [axis, value] = word.split('=');
      llvm::SmallVector<llvm::StringRef> numbers;
      value.split(numbers, '+');
      for (llvm::StringRef one : numbers) {
        UCP_ASSIGN_OR_RETURN(std::int64_t number, Number(one));
        if (numbers.size() > 1) {
          degrees.stage_layers.push_back(number);
        } else if (axis == "interleave") {
          degrees.interleave = number;
        } else {
          degrees.mesh.axes.push_back({axis.str(), number});
        }
      }
    }
    auto places = static_cast<std::int64_t>(degrees.stage_layers.size());
    if (places != 0) degrees.mesh.axes.push_back({"pp", places / degrees.interleave.value_or(1)});
    return llvm::Error::success();
  }

  llvm::Error ReadFact(llvm::StringRef text) {
    auto [path, value] = text.split(" = ");
    auto fact = ParseFactValue({value.data(), value.size()});
    if (!fact) return Fail(ErrorCode::kUsage, "`{}` is no value", value.str());
    written_.inventory.facts[path.str()] = {*fact, "metadata.pt"};
    return llvm::Error::success();
  }

  llvm::Error ReadSet(llvm::StringRef text) {
    auto [name, value] = text.split(" = ");
    auto set = ParseFactValue({value.data(), value.size()});
    if (!set) return Fail(ErrorCode::kUsage, "`{}` is no value", value.str());
    written_.set[name.str()] = *set;
    return llvm::Error::success();
  }

  llvm::Error ReadTensor(llvm::StringRef text) {
    auto [name, rest] = text.split(" [");
    auto [shape_text, where] = rest.split(']');
    where.consume_front(" at ");
    Shard shard;
    shard.tensor = name.str();
    llvm::SmallVector<llvm::StringRef> lengths;
    shape_text.split(lengths, ',', -1, false);
    for (llvm::StringRef length : lengths) {
      UCP_ASSIGN_OR_RETURN(std::int64_t number, Number(length));
      shard.shape.push_back(number);
    }
    UCP_ASSIGN_OR_RETURN(std::vector<AxisRange> axes, Axes(where));
    AddShards(std::move(shard), axes, 0);
    return llvm::Error::success();
  }

  void AddShards(Shard shard, const std::vector<AxisRange>& axes, std::size_t axis) {
    if (axis == axes.size()) {
      shard.states = FileOf(shard.coordinate);
      written_.inventory.storage.shards.push_back(std::move(shard));
      return;
    }
    for (std::int64_t i = axes[axis].first; i <= axes[axis].last; ++i) {
      shard.coordinate.at[axes[axis].axis] = i;
      AddShards(shard, axes, axis + 1);
    }
  }

  BufferSetId FileOf(const Coordinate& coordinate) {
    std::string name;
    for (const auto& [axis, index] : coordinate.at) name += fmt::format("{}{}{}", name.empty() ? "" : "_", axis, index);
    if (name.empty()) name = "model";
    auto [entry, added] = files_.emplace(name + ".pt", BufferSetId());
    if (!added) return entry->second;
    Storage& storage = written_.inventory.storage;
    RecordId record = storage.Add(Record{storage.Add(StoredFile{entry->first, 0, {}}), 0, 0, {}});
    BufferId buffer = storage.Add(Buffer{DType::kFloat32, 0, {{record, 0, 0}}});
    entry->second = storage.Add(BufferSet{{kMasterState, buffer}});
    return entry->second;
  }

  WrittenInventory written_;
  std::map<std::string, BufferSetId> files_;
};

}  // namespace

llvm::Expected<WrittenInventory> ReadWrittenInventory(std::string_view spec) { return InventoryReader().Run(spec); }

}  // namespace ucp::golden
