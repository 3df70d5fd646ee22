#include "compiler/formats/deepspeed/native/read/optimizer/zero0_experts.h"

#include <algorithm>
#include <set>

#include "compiler/formats/agreement.h"
#include "compiler/formats/deepspeed/common/expert_groups.h"
#include "compiler/formats/deepspeed/native/read/optimizer/partition_buffers.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_names.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

bool IsOfExperts(const WholeGroup& group) {
  pytorch::ValuePtr moe = pytorch::Find(*group.hyper_parameters, "moe");
  return moe && pytorch::AsBool(*moe).value_or(false);
}

// Names the parameters of the groups that are of experts, or of those that are not; `tensors` are the module's of this
// kind. Fills their places in rank.states.param_shapes.
llvm::Error NameGroups(const SourceArchives& archives, WholeExpertRank& rank, const std::string& folder,
                       bool of_experts, std::vector<std::pair<std::string, TensorPlace>> tensors) {
  WholeOptimizer optimizer;
  optimizer.path = rank.optimizer.path;
  optimizer.form = rank.optimizer.form;
  std::vector<std::size_t> places;
  for (std::size_t g = 0; g < rank.optimizer.groups.size(); ++g) {
    if (IsOfExperts(rank.optimizer.groups[g]) != of_experts) continue;
    optimizer.groups.push_back(rank.optimizer.groups[g]);
    places.push_back(g);
  }
  ModelStates states;
  states.path = rank.optimizer.path;
  states.has_module = true;
  states.buffer_names = rank.states.buffer_names;
  states.autoep_layers = rank.states.autoep_layers;
  states.module.tensors = std::move(tensors);
  UCP_RETURN_IF_ERROR(NameParameters(archives, optimizer, folder, states));
  for (std::size_t i = 0; i < places.size(); ++i) rank.states.param_shapes[places[i]] = states.param_shapes[i];
  return llvm::Error::success();
}

// Where the optimizer of an expert rank is: in the file of this model-parallel rank.
struct SavedAt {
  std::int64_t mp = 0;
  std::int64_t expert_rank = 0;
};

class Reader {
 public:
  Reader(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder, const Experts& experts,
         const FusedExperts& fused, const std::vector<ModelStates>& states)
      : archives_(archives), files_(files), folder_(folder), experts_(experts), fused_(fused), states_(states) {}

  llvm::Expected<std::vector<WholeExpertRank>> Read() const {
    UCP_ASSIGN_OR_RETURN(const std::vector<SavedAt> places, fused_.any() ? PlacesOfFused() : Places());
    if (files_.expert_optimizers.size() != places.size()) {
      return Fail(ErrorCode::kBadData, "`{}`: there is `{}`, and the experts are shared out over {} ranks", folder_,
                  files_.expert_optimizers.rbegin()->second, fused_.any() ? fused_.ep() : experts_.ep());
    }
    std::vector<WholeExpertRank> ranks;
    for (const SavedAt& place : places) {
      UCP_ASSIGN_OR_RETURN(ranks.emplace_back(), ReadRank(place));
    }
    return ranks;
  }

 private:
  llvm::Error Missing(const SavedAt& place, std::int64_t ep) const {
    return Fail(ErrorCode::kBadData, "`{}`: `{}` is missing; there are the optimizers of {} ranks that share experts",
                folder_, ExpertOptimizerName(place.mp, place.expert_rank), ep);
  }

  llvm::Expected<std::vector<SavedAt>> Places() const {
    std::vector<SavedAt> places;
    for (std::int64_t mp = 0; mp < std::ssize(states_); mp += experts_.tensor_ranks()) {
      for (std::int64_t e = 0; e < experts_.ep(); ++e) {
        const std::optional<std::int64_t> saver = experts_.SaverOfOptimizer(files_, mp, e);
        if (!saver) return Missing({mp, e}, experts_.ep());
        places.push_back({*saver, e});
      }
    }
    return places;
  }

  llvm::Expected<std::vector<SavedAt>> PlacesOfFused() const {
    std::vector<SavedAt> places;
    for (std::int64_t mp = 0; mp < std::ssize(states_); ++mp) {
      for (std::int64_t e : fused_.ExpertRanksIn(mp)) {
        if (!files_.expert_optimizers.contains({mp, e})) return Missing({mp, e}, fused_.ep());
        places.push_back({mp, e});
      }
    }
    return places;
  }

  llvm::Expected<WholeExpertRank> ReadRank(const SavedAt& place) const {
    const std::string& path = files_.expert_optimizers.at({place.mp, place.expert_rank});
    const ModelStates& model = states_[static_cast<std::size_t>(place.mp)];
    UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives_.Open(path));
    pytorch::ValuePtr optimizer = pytorch::Find(archive.root(), "optimizer");
    if (!optimizer || optimizer->is_none()) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` holds no `optimizer`", folder_, path);
    }
    if (fused_.any()) {
      UCP_ASSIGN_OR_RETURN(const std::optional<Folding> folding, ReadFolding(archive.root(), path));
      UCP_RETURN_IF_ERROR(fused_.CheckExpertFile(folding, path, place.mp, place.expert_rank));
    }
    WholeExpertRank rank{place.mp, place.expert_rank, {}, {}};
    UCP_ASSIGN_OR_RETURN(rank.optimizer, ReadWholeOptimizer(archives_, archive, optimizer));
    rank.states.path = model.path;
    rank.states.rank = model.rank;
    rank.states.engine = model.engine;
    rank.states.has_module = true;
    rank.states.buffer_names = model.buffer_names;
    rank.states.autoep_layers = model.autoep_layers;
    rank.states.module.tensors = model.module.tensors;
    rank.states.param_shapes.resize(rank.optimizer.groups.size());
    std::vector<std::pair<std::string, TensorPlace>> own =
        fused_.any() ? fused_.TensorsOf(place.mp, place.expert_rank) : experts_.TensorsOf(place.mp, place.expert_rank);
    UCP_RETURN_IF_ERROR(NameGroups(archives_, rank, folder_, false, model.module.tensors));
    UCP_RETURN_IF_ERROR(NameGroups(archives_, rank, folder_, true, own));
    for (auto& tensor : own) rank.states.module.tensors.push_back(std::move(tensor));
    return rank;
  }

  SourceArchives& archives_;
  const CheckpointFiles& files_;
  const std::string& folder_;
  const Experts& experts_;
  const FusedExperts& fused_;
  const std::vector<ModelStates>& states_;
};

// The groups of all expert ranks, as one rank with all experts has them.
llvm::Expected<RankGroups> JoinRanks(const OptimizerContext& context, std::vector<RankGroups>& ranks) {
  RankGroups joined{
      ranks.front().speaker, {}, std::move(ranks.front().others), ranks.front().path, ranks.front().groups_path};
  const Speaker& a = ranks.front().speaker;
  for (std::size_t g = 0; g < ranks.front().groups.size(); ++g) {
    const OptimizerGroup& first = ranks.front().groups[g];
    std::vector<std::vector<std::string>> names;
    for (const RankGroups& rank : ranks) {
      const Speaker& b = rank.speaker;
      if (rank.groups.size() != ranks.front().groups.size()) {
        return Fail(ErrorCode::kBadData, "`{}`: `{}` has {} optimizer groups, and `{}` has {}", context.folder, a.path,
                    ranks.front().groups.size(), b.path, rank.groups.size());
      }
      const OptimizerGroup& group = rank.groups[g];
      UCP_RETURN_IF_ERROR(CheckSameText(context.folder, fmt::format("`param_groups` of group {}", g),
                                        pytorch::Print(*first.hyper_parameters), a.path,
                                        pytorch::Print(*group.hyper_parameters), b.path));
      UCP_RETURN_IF_ERROR(CheckSameStep(context.checkpoint.training, first.step, a.path, group.step, b.path));
      if (names.empty() || group.parameters != names.front()) names.push_back(group.parameters);
    }
    joined.groups.push_back({first.hyper_parameters, first.step, JoinExpertRanks(names)});
  }
  return joined;
}

// Whether `rank` is the last of those whose groups are joined; `next` is the one behind it. Of AutoEP's tensors every
// expert rank has a part, so that the groups of a tensor-parallel rank have all names.
bool IsLast(const OptimizerContext& context, const WholeExpertRank& rank, const WholeExpertRank& next) {
  return context.fused_experts.any() ? next.mp != rank.mp : next.expert_rank == 0;
}

llvm::Expected<RankGroups> AddRank(const OptimizerContext& context, WholeExpertRank& rank) {
  const std::size_t before = context.storage().shards.size();
  UCP_ASSIGN_OR_RETURN(RankGroups groups,
                       AddWholeRank(context, rank.mp, rank.states, rank.optimizer, rank.expert_rank));
  auto in_model = [&](std::string& name) { name = context.experts.NameInModel(rank.mp, name, rank.expert_rank); };
  for (std::size_t i = before; i < context.storage().shards.size(); ++i) {
    Shard& shard = context.storage().shards[i];
    in_model(shard.tensor);
    shard.coordinate.at["ep"] = rank.expert_rank;
    if (context.IsExpert(shard.tensor)) shard.coordinate = context.PlaceOfExpertsIn(rank.mp, rank.expert_rank);
  }
  for (OptimizerGroup& group : groups.groups) {
    for (std::string& name : group.parameters) in_model(name);
  }
  return groups;
}

}  // namespace

llvm::Expected<std::vector<WholeExpertRank>> ReadWholeExperts(SourceArchives& archives, const CheckpointFiles& files,
                                                              const std::string& folder, const Experts& experts,
                                                              const FusedExperts& fused_experts,
                                                              std::vector<ModelStates>& states) {
  UCP_ASSIGN_OR_RETURN(std::vector<WholeExpertRank> ranks,
                       Reader(archives, files, folder, experts, fused_experts, states).Read());
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    const auto own = std::find_if(ranks.begin(), ranks.end(), [&](const WholeExpertRank& rank) {
      return rank.mp == static_cast<std::int64_t>(mp);
    });
    if (own == ranks.end()) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}`: no `expp_rank_*` file is of model-parallel rank {}: {} tensor-parallel ranks share whole "
                  "experts out, and fewer saved their optimizers, which DeepSpeed itself does not load either",
                  folder, mp, experts.tensor_ranks());
    }
    states[mp].param_shapes = own->states.param_shapes;
  }
  return ranks;
}

llvm::Expected<std::vector<RankGroups>> AddWholeExperts(const OptimizerContext& context,
                                                        std::vector<WholeExpertRank>& ranks) {
  std::vector<RankGroups> all;
  std::vector<RankGroups>
      together;  // Of the expert ranks of one model-parallel rank, or of those that share whole ones.
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    UCP_ASSIGN_OR_RETURN(RankGroups groups, AddRank(context, ranks[r]));
    together.push_back(std::move(groups));
    if (r + 1 < ranks.size() && !IsLast(context, ranks[r], ranks[r + 1])) continue;
    UCP_ASSIGN_OR_RETURN(const RankGroups joined, JoinRanks(context, together));
    std::set<Coordinate> seen;
    for (const RankGroups& of_rank : together) {
      if (!seen.insert(of_rank.speaker.rank).second) continue;
      all.push_back(joined);
      all.back().speaker = of_rank.speaker;
    }
    together.clear();
  }
  return all;
}

}  // namespace ucp::deepspeed
