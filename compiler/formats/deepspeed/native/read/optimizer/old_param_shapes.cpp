#include "compiler/formats/deepspeed/native/read/optimizer/old_param_shapes.h"

#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/formats/deepspeed/native/read/optimizer/group_split.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero12_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero3_states.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// Whether the one dict of this file is in the optimizer's order: from 0.4.3 on. Older files name no version.
bool IsInOptimizerOrder(const pytorch::Value& root) {
  const pytorch::ValuePtr version = pytorch::Find(root, "ds_version");
  const auto text = version ? pytorch::AsText(*version) : std::nullopt;
  if (!text) return false;
  std::vector<int> numbers;
  llvm::StringRef rest(text->data(), text->size());
  for (int number = 0; numbers.size() < 3 && !rest.consumeInteger(10, number); rest.consume_front(".")) {
    numbers.push_back(number);
  }
  return numbers >= std::vector{0, 4, 3};
}

// One model-parallel rank.
class OldShapes {
 public:
  OldShapes(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder, std::int64_t partitions,
            ModelStates& states)
      : archives_(archives), files_(files), folder_(folder), partitions_(partitions), states_(states) {}

  // Returns whether the order within the groups is the module's, and nothing but that says so.
  llvm::Expected<bool> Fill(std::int64_t mp) {
    for (std::int64_t p = 0; p < partitions_; ++p) {
      UCP_RETURN_IF_ERROR(ReadFile(files_.optimizer_states.at({mp, p}), p == 0));
    }
    if (!listed_) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: neither `{}` nor `{}` has `param_shapes`, so nothing says which parameters the optimizer has",
                  folder_, states_.path, first_path_);
    }
    states_.shapes_are_of_optimizer = true;
    if (is_by_group_) {
      states_.param_shapes = std::move(*listed_);
      return false;
    }
    const std::vector<NamedShape> all = std::move(listed_->front());
    std::vector<std::int64_t> sizes;
    for (const NamedShape& parameter : all) {
      auto flat = LayOutGroup({parameter}, {});
      if (!flat) return AddContext(flat.takeError(), fmt::format("`{}`: `{}`", folder_, first_path_));
      sizes.push_back(is_partitioned() ? CeilDivide(flat->elements, partitions_) : flat->elements);
    }
    if (is_in_order_) {
      if (const GroupSplit split = SplitInOrder(sizes, rooms_)) {
        TakeSplit(all, *split);
        return false;
      }
    }
    if (!is_partitioned() && SplitByViews(all)) return false;
    const GroupSplit split = is_in_order_ ? std::nullopt : SplitBySizes(sizes, rooms_);
    if (!split) return FailUndecided(all.size());
    TakeSplit(all, *split);
    return true;
  }

 private:
  using Shapes = std::vector<std::vector<NamedShape>>;

  bool is_partitioned() const { return !files_.partitioned_model_states.empty(); }

  llvm::Error ReadFile(const std::string& path, bool is_first) {
    UCP_ASSIGN_OR_RETURN(Shapes listed, ReadListed(path, is_first));
    if (is_first) {
      first_path_ = path;
      if (!listed.empty()) listed_ = std::move(listed);
    } else if (listed_.value_or(Shapes()) != listed) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `param_shapes` is not the same in `{}` and `{}`; these files are not of one checkpoint",
                  folder_, first_path_, path);
    }
    return is_partitioned() ? AddRoomsOfPartitioned(path) : AddRoomsOfFlat(path);
  }

  llvm::Expected<Shapes> ReadListed(const std::string& path, bool is_first) {
    UCP_ASSIGN_OR_RETURN(const SourceArchive archive, archives_.Open(path));
    const pytorch::ValuePtr value = pytorch::Find(archive.root(), "param_shapes");
    Shapes listed;
    if (!value || value->is_none()) return listed;
    const auto* groups = value->As<pytorch::List>() != nullptr ? pytorch::Items(*value) : nullptr;
    const std::vector<pytorch::ValuePtr> all = groups != nullptr ? *groups : std::vector{value};
    for (const pytorch::ValuePtr& group : all) {
      UCP_ASSIGN_OR_RETURN(listed.emplace_back(), ReadShapes(archive, *group, "param_shapes"));
    }
    if (is_first) {
      is_by_group_ = groups != nullptr;
      is_in_order_ = IsInOptimizerOrder(archive.root());
    }
    return listed;
  }

  // Every partition is as long, padding of each parameter included.
  llvm::Error AddRoomsOfPartitioned(const std::string& path) {
    UCP_ASSIGN_OR_RETURN(const PartitionedStates read, ReadPartitionedStates(archives_, path));
    rooms_.clear();
    for (const SteppedTensor& group : read.sub_groups) rooms_.push_back({group.master.elements, group.master.elements});
    return llvm::Error::success();
  }

  // Padding stands at the end of a group alone, and in an elastic checkpoint nowhere.
  llvm::Error AddRoomsOfFlat(const std::string& path) {
    UCP_ASSIGN_OR_RETURN(const OptimizerStates read, ReadOptimizerStates(archives_, path));
    if (rooms_.empty()) rooms_.resize(read.groups.size());
    if (rooms_.size() != read.groups.size()) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` has {} optimizer groups and `{}` has {}", folder_, first_path_,
                  rooms_.size(), path, read.groups.size());
    }
    for (std::size_t g = 0; g < rooms_.size(); ++g) {
      const GroupPartition& held = read.groups[g];
      rooms_[g].most += held.master.elements;
      rooms_[g].least += held.master.elements - (held.is_lean ? 0 : 2);
    }
    return llvm::Error::success();
  }

  // In stages 1 and 2, a group's parameters are views of one vector, in the order in which they lie there.
  bool SplitByViews(const std::vector<NamedShape>& all) {
    std::map<std::string, const TensorPlace*> places;
    for (const auto& [name, place] : states_.module.tensors) places.emplace(name, &place);
    struct View {
      const TensorPlace* place;
      const NamedShape* parameter;
    };
    std::map<RecordId, std::vector<View>> vectors;
    for (const NamedShape& parameter : all) {
      auto found = places.find(parameter.name);
      if (found == places.end()) return false;
      vectors[found->second->record].push_back({found->second, &parameter});
    }
    Shapes groups(rooms_.size());
    std::vector<bool> is_taken(rooms_.size());
    for (auto& [record, views] : vectors) {
      std::ranges::stable_sort(views, {}, [](const View& view) { return view.place->offset; });
      std::int64_t end = 0;
      for (const View& view : views) {
        if (view.place->offset != end || !view.place->strides.empty()) return false;
        end += view.place->elements;
      }
      std::vector<std::size_t> fitting;
      for (std::size_t g = 0; g < rooms_.size(); ++g) {
        if (end >= rooms_[g].least && end <= rooms_[g].most) fitting.push_back(g);
      }
      if (fitting.empty()) continue;  // It is not trained.
      if (fitting.size() > 1 || is_taken[fitting.front()]) return false;
      is_taken[fitting.front()] = true;
      for (const View& view : views) groups[fitting.front()].push_back(*view.parameter);
    }
    if (std::ranges::find(is_taken, false) != is_taken.end()) return false;
    states_.param_shapes = std::move(groups);
    return true;
  }

  void TakeSplit(const std::vector<NamedShape>& all, const std::vector<std::size_t>& group_of) {
    states_.param_shapes.resize(rooms_.size());
    for (std::size_t i = 0; i < all.size(); ++i) states_.param_shapes[group_of[i]].push_back(all[i]);
  }

  llvm::Error FailUndecided(std::size_t parameters) const {
    std::vector<std::string> lengths;
    for (const GroupRoom& room : rooms_) lengths.push_back(std::to_string(room.most));
    return Fail(ErrorCode::kUnsupported,
                "`{}`: `param_shapes` in `{}` is one list of {} parameters, and the optimizer has {} groups of {} "
                "elements; their sizes do not decide which parameter is in which group. DeepSpeed 0.5.4 and later "
                "write a list for each group",
                folder_, first_path_, parameters, rooms_.size(), fmt::join(lengths, ", "));
  }

  SourceArchives& archives_;
  const CheckpointFiles& files_;
  const std::string& folder_;
  const std::int64_t partitions_;
  ModelStates& states_;
  std::optional<Shapes> listed_;
  std::string first_path_;
  bool is_by_group_ = false;
  bool is_in_order_ = false;
  std::vector<GroupRoom> rooms_;
};

}  // namespace

llvm::Error ReadOldParamShapes(ReadableFileSystem& file_system, const CheckpointFiles& files, const std::string& folder,
                               std::int64_t partitions, std::vector<ModelStates>& states,
                               std::vector<std::string>& remarks) {
  Storage storage;  // Of this look alone: the optimizer itself is read when its parameters have shapes.
  TrainingState training;
  SourceArchives archives(file_system, folder, storage, training);
  bool is_order_assumed = false;
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    if (states[mp].has_param_shapes) continue;
    UCP_ASSIGN_OR_RETURN(
        const bool is_assumed,
        OldShapes(archives, files, folder, partitions, states[mp]).Fill(static_cast<std::int64_t>(mp)));
    is_order_assumed = is_order_assumed || is_assumed;
  }
  if (is_order_assumed) {
    remarks.emplace_back(
        "the files list parameters in the module's order, as DeepSpeed before 0.4.3 did; the optimizer is taken to "
        "have "
        "been given them in this order, as `model.parameters()` does");
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
