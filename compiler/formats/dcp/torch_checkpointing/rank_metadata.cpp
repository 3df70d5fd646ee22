// Version 2.0 has a dict for each item, of the paths in it and of the files of ranks. Version 1.0 has one dict of paths
// that begin with the item, and one of the files by rank and item.
#include "compiler/formats/dcp/torch_checkpointing/rank_metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "compiler/formats/dcp/entries/check_names.h"
#include "compiler/formats/dcp/torch_checkpointing/sharding_reader.h"
#include "compiler/formats/dcp/torch_checkpointing/tree_values.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::dcp {
namespace {

using Id = PickleTree::Id;

constexpr std::size_t kMostNameBytes = 200;
constexpr std::size_t kMostItems = 1000;
constexpr const char* kPaths = "`nested_path_to_metadata`";
constexpr const char* kLayouts = "`rank_to_layout_info`";
constexpr const char* kFlatLayouts = "`rank_to_layout_info_mappings`";

bool IsItemName(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

class RankMetadataReader {
 public:
  RankMetadataReader(const PickleTree& tree, std::size_t bytes)
      : tree_(tree), values_(tree, bytes), shardings_(values_, result_) {}

  llvm::Expected<RankMetadata> Run() {
    UCP_ASSIGN_OR_RETURN(const Id items, values_.Need(tree_.root(), "metadata", "it"));
    UCP_ASSIGN_OR_RETURN(result_.world_size, values_.NeedInteger(tree_.root(), "world_size", "it"));
    const auto version = values_.Find(tree_.root(), "version");
    const std::string_view text = version ? tree_.Text(*version).value_or("") : "1.0";
    if (text != "1.0" && text != "2.0") {
      return Fail(ErrorCode::kUnsupported, "its version is {}, and 1.0 and 2.0 are read", values_.Called(*version));
    }
    UCP_RETURN_IF_ERROR(text == "2.0" ? ReadItems(items) : ReadFlatItems(items));
    return std::move(result_);
  }

 private:
  llvm::Error ReadItems(Id items) {
    return values_.ForEachEntry(items, "`metadata`", [&](Id key, Id value) { return ReadItem(key, value); });
  }

  llvm::Error ReadItem(Id key, Id value) {
    const std::string name(tree_.Text(key).value_or(""));
    UCP_RETURN_IF_ERROR(AddItem(name));
    const std::string what = fmt::format("the item `{}`", name);
    UCP_ASSIGN_OR_RETURN(const Id layouts, values_.Need(value, "rank_to_layout_info", what));
    UCP_RETURN_IF_ERROR(
        values_.ForEachEntry(layouts, kLayouts, [&](Id rank, Id layout) { return TakeLayout(name, rank, layout); }));
    UCP_RETURN_IF_ERROR(TakeFiles(result_.items.back()));
    UCP_ASSIGN_OR_RETURN(const Id paths, values_.Need(value, "nested_path_to_metadata", what));
    return values_.ForEachEntry(paths, kPaths, [&](Id path, Id groups) -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(std::vector<PathPart> parts, PathOf(path));
      return AddTensor(result_.items.back(), std::move(parts), groups);
    });
  }

  llvm::Error ReadFlatItems(Id paths) {
    UCP_RETURN_IF_ERROR(
        values_.ForEachEntry(paths, "`metadata`", [&](Id path, Id groups) { return ReadFlatPath(path, groups); }));
    UCP_ASSIGN_OR_RETURN(const Id ranks, values_.Need(tree_.root(), "rank_to_layout_info_mappings", "it"));
    UCP_RETURN_IF_ERROR(
        values_.ForEachEntry(ranks, kFlatLayouts, [&](Id rank, Id layouts) { return ReadFlatLayouts(rank, layouts); }));
    for (RankItem& item : result_.items) {
      UCP_RETURN_IF_ERROR(TakeFiles(item));
      for (auto& [path, groups] : flat_paths_[item.name]) {
        UCP_RETURN_IF_ERROR(AddTensor(item, std::move(path), groups));
      }
    }
    return llvm::Error::success();
  }

  llvm::Error ReadFlatPath(Id path, Id groups) {
    UCP_ASSIGN_OR_RETURN(const std::vector<PathPart> parts, PathOf(path));
    const auto* name = parts.empty() ? nullptr : std::get_if<std::string>(&parts.front());
    if (name == nullptr) {
      return Fail(ErrorCode::kBadData, "the path {} does not begin with the name of an item", values_.Called(path));
    }
    if (!flat_paths_.contains(*name)) UCP_RETURN_IF_ERROR(AddItem(*name));
    flat_paths_[*name].emplace_back(std::vector<PathPart>(parts.begin() + 1, parts.end()), groups);
    return llvm::Error::success();
  }

  // Also of items without tensors that ranks share. A rank may lack an item.
  llvm::Error ReadFlatLayouts(Id rank, Id layouts) {
    UCP_RETURN_IF_ERROR(values_.ForEachEntry(layouts, kFlatLayouts, [&](Id key, Id layout) {
      return TakeLayout(std::string(tree_.Text(key).value_or("")), rank, layout);
    }));
    UCP_ASSIGN_OR_RETURN(const std::int64_t number, RankOf("metadata", rank));
    for (const RankItem& item : result_.items) files_of_item_[item.name].try_emplace(number);
    return llvm::Error::success();
  }

  llvm::Error AddItem(const std::string& name) {
    if (!IsItemName(name)) return Fail(ErrorCode::kBadData, "`{:.100}` is not the name of an item", name);
    if (names_.size() == kMostItems) return Fail(ErrorCode::kBadData, "it has more than {} items", kMostItems);
    if (!names_.insert(name).second) return Fail(ErrorCode::kBadData, "it has two items `{}`", name);
    result_.items.emplace_back().name = name;
    return llvm::Error::success();
  }

  // Older versions wrote numbers of ranks as texts.
  llvm::Expected<std::int64_t> RankOf(std::string_view item, Id key) const {
    std::int64_t rank = tree_.Integer(key).value_or(-1);
    if (const auto text = tree_.Text(key)) std::from_chars(text->data(), text->data() + text->size(), rank);
    if (rank >= 0 && rank < result_.world_size) return rank;
    return Fail(ErrorCode::kBadData, "`{:.100}` has a file of rank {}, and `world_size` is {}", item,
                values_.Called(key), result_.world_size);
  }

  llvm::Error TakeLayout(const std::string& item, Id key, Id layout) {
    UCP_ASSIGN_OR_RETURN(const std::int64_t rank, RankOf(item, key));
    if (!files_of_item_[item].try_emplace(rank).second) {
      return Fail(ErrorCode::kBadData, "`{:.100}` has two files of rank {}", item, rank);
    }
    if (tree_.IsNone(layout)) return llvm::Error::success();
    const std::string what = fmt::format("the file of `{:.100}` and rank {}", item, rank);
    UCP_ASSIGN_OR_RETURN(const std::string_view path, values_.NeedText(layout, "file_path", what));
    UCP_RETURN_IF_ERROR(CheckFilePath(path, item));
    UCP_ASSIGN_OR_RETURN(const Id format, values_.Need(layout, "serialization_format", what));
    UCP_ASSIGN_OR_RETURN(const std::string_view type, values_.NeedText(format, "type", "`serialization_format`"));
    if (type != "TorchSerialization") {
      return Fail(ErrorCode::kUnsupported,
                  "`{:.100}` is saved by {:.100} into `{}`, and files of TorchSerialization are read; save it again "
                  "without a layout of its own",
                  item, type, path);
    }
    if (!paths_.emplace(path).second) return Fail(ErrorCode::kBadData, "two ranks or items have the file `{}`", path);
    files_of_item_[item][rank] = path;
    return llvm::Error::success();
  }

  // Every rank has an entry of an item, so that no memory is made by the claimed number of ranks.
  llvm::Error TakeFiles(RankItem& item) {
    const std::map<std::int64_t, std::string>& files = files_of_item_[item.name];
    if (std::cmp_not_equal(files.size(), result_.world_size)) {
      return Fail(ErrorCode::kBadData, "`world_size` is {}, and `{}` has files of {} ranks", result_.world_size,
                  item.name, files.size());
    }
    for (const auto& [rank, path] : files) {
      item.files.push_back(path.empty() ? fmt::format("{}_{}.pt", item.name, rank) : path);
    }
    item.holders.resize(item.files.size());
    return llvm::Error::success();
  }

  llvm::Expected<std::vector<PathPart>> PathOf(Id key) const {
    std::vector<PathPart> path;
    JsonReader json(tree_.Text(key).value_or(""));
    llvm::Error error = json.ReadArray([&]() -> llvm::Error {
      if (json.Next() == '"') {
        UCP_ASSIGN_OR_RETURN(std::string text, json.ReadText());
        path.emplace_back(std::move(text));
        return llvm::Error::success();
      }
      UCP_ASSIGN_OR_RETURN(const std::uint64_t place, json.ReadSize());
      path.emplace_back(static_cast<std::int64_t>(place));
      return llvm::Error::success();
    });
    if (!error) error = json.ReadEnd();
    if (error) return AddContext(std::move(error), fmt::format("the path {}", values_.Called(key)));
    return path;
  }

  llvm::Error AddTensor(RankItem& item, std::vector<PathPart> path, Id groups) {
    const std::string key = PathText(path);
    const std::string what = fmt::format("`{:.200}` of the item `{}`", key, item.name);
    if (!seen_paths_.emplace(item.name, key).second) return Fail(ErrorCode::kBadData, "{} is described twice", what);
    std::optional<SharedTensor> first;
    UCP_RETURN_IF_ERROR(values_.ForEachItem(groups, what, [&](Id group) -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(SharedTensor read, shardings_.Read(group, what));
      MarkHolders(item, read.mesh);
      if (!first) {
        first = std::move(read);
        return llvm::Error::success();
      }
      if (read.dtype != first->dtype || read.shape != first->shape) {
        return Fail(ErrorCode::kBadData, "{} is of {} and [{}] on one mesh, and of {} and [{}] on another", what,
                    Name(first->dtype), fmt::join(first->shape, ", "), Name(read.dtype), fmt::join(read.shape, ", "));
      }
      if (FirstRankOf(read) < FirstRankOf(*first)) first = std::move(read);
      return llvm::Error::success();
    }));
    if (!first) return Fail(ErrorCode::kBadData, "{} is on no rank", what);
    first->path = std::move(path);
    item.tensors.push_back(*std::move(first));
    return llvm::Error::success();
  }

  std::int64_t FirstRankOf(const SharedTensor& tensor) const { return result_.meshes[tensor.mesh].first_rank; }

  void MarkHolders(RankItem& item, std::uint32_t mesh) {
    if (!marked_.emplace(item.name, mesh).second) return;
    for (const std::int64_t rank : result_.meshes[mesh].ranks) item.holders[static_cast<std::size_t>(rank)] = true;
  }

  const PickleTree& tree_;
  TreeValues values_;
  RankMetadata result_;
  ShardingReader shardings_;
  std::set<std::string> names_;
  std::map<std::string, std::map<std::int64_t, std::string>> files_of_item_;  // Empty: as they are called by default.
  std::set<std::string, std::less<>> paths_;
  std::map<std::string, std::vector<std::pair<std::vector<PathPart>, Id>>> flat_paths_;  // Of version 1.0, by item.
  std::set<std::pair<std::string, std::string>> seen_paths_;                             // With the item.
  std::set<std::pair<std::string, std::uint32_t>> marked_;                               // Meshes, with the item.
};

}  // namespace

std::string PathText(const std::vector<PathPart>& path) {
  std::string text;
  for (const PathPart& part : path) {
    if (!text.empty()) text += '.';
    const auto* name = std::get_if<std::string>(&part);
    text += name != nullptr ? *name : fmt::to_string(std::get<std::int64_t>(part));
  }
  return text;
}

llvm::Expected<RankMetadata> ReadRankMetadata(std::string_view pickle) {
  UCP_ASSIGN_OR_RETURN(const PickleTree tree, PickleTree::Read(pickle));
  if (tree.HasObjects()) {
    return Fail(ErrorCode::kBadData, "it names a class or a function, and torch_checkpointing writes plain values");
  }
  return RankMetadataReader(tree, pickle.size()).Run();
}

}  // namespace ucp::dcp
