#include "compiler/formats/deepspeed/universal/model_files.h"

#include <re2/re2.h>

#include <map>
#include <set>
#include <string_view>

#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

// By rank; folders that DeepSpeed made from stage 3 have only the second kind.
llvm::Expected<std::map<std::int64_t, std::string>> ListModelFiles(ReadableFileSystem& files,
                                                                   const std::string& folder) {
  static const RE2 usual(R"(mp_rank_(\d{1,9})_model_states\.pt)");
  static const RE2 stage3(R"(zero_pp_rank_0_mp_rank_(\d{1,9})_model_states\.pt)");
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
  for (const RE2* pattern : {&usual, &stage3}) {
    std::map<std::int64_t, std::string> names;
    for (const DirectoryEntry& entry : entries) {
      std::int64_t rank = 0;
      if (!entry.is_directory && RE2::FullMatch(entry.name, *pattern, &rank)) names.emplace(rank, entry.name);
    }
    if (!names.empty()) return names;
  }
  return Fail(ErrorCode::kBadData, "`{}`: `mp_rank_00_model_states.pt` is missing; was the folder written to its end?",
              folder);
}

// We write each rank's file twice, and the form for stage 3 lists the tensors that only the other one holds.
// DeepSpeed's own files of stage 3 hold what they list, so that they need no other.
llvm::Error CheckListedTensors(const std::string& folder, const std::vector<ModelStates>& all) {
  std::set<std::string_view> held;
  for (const ModelStates& states : all) {
    for (const ModuleEntries* entries : {&states.module, &states.frozen_fragments}) {
      for (const auto& [name, place] : entries->tensors) held.insert(name);
    }
  }
  for (const ModelStates& states : all) {
    std::set<std::string> listed = states.buffer_names;
    for (const auto& [name, shape] : states.frozen_shapes) listed.insert(name);
    for (const std::string& name : listed) {
      if (held.contains(name)) continue;
      return Fail(ErrorCode::kBadData,
                  "`{}`: `mp_rank_00_model_states.pt` is missing, and `{}` lists `{}` without holding it; was the "
                  "folder written to its end?",
                  folder, states.path, name);
    }
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::vector<ModelStates>> ReadModelFiles(ReadableFileSystem& files, const std::string& folder,
                                                        SourceArchives& archives) {
  UCP_ASSIGN_OR_RETURN(const auto names, ListModelFiles(files, folder));
  std::vector<ModelStates> all;
  for (const auto& [rank, name] : names) {
    UCP_ASSIGN_OR_RETURN(ModelStates states, ReadModelStates(archives, name, ModelStatesOf::kUniversalFolder));
    states.rank.at["mp"] = rank;
    all.push_back(std::move(states));
  }
  const auto found = static_cast<std::int64_t>(all.size());
  const std::int64_t expected = all.front().mp_world_size.value_or(found);
  if (expected != found || names.rbegin()->first != found - 1) {
    return Fail(ErrorCode::kBadData,
                "`{}`: `mp_world_size` in `{}` is {}, and there are {} such files, the last one `{}`", folder,
                all.front().path, expected, found, names.rbegin()->second);
  }
  if (names.begin()->second.starts_with("zero_pp_rank_")) UCP_RETURN_IF_ERROR(CheckListedTensors(folder, all));
  return all;
}

}  // namespace ucp::universal
