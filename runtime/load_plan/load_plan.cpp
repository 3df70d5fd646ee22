#include "runtime/load_plan/load_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/comm/agree_on_request.h"
#include "runtime/load_plan/request_text.h"
#include "runtime/load_plan/share_load.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/shared_headers/shared_headers.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

std::string TextOf(const LoadRequest& request) {
  const CompileRequest& compile = request.compile;
  std::vector<std::string> more;
  if (!compile.settings.tag.empty()) more.push_back(fmt::format("tag `{}`", compile.settings.tag));
  for (const std::string& name : compile.settings.keep_opaque)
    more.push_back(fmt::format("objects of `{}` kept", name));
  if (!compile.settings.job_config.empty()) more.push_back(fmt::format("ds_config `{}`", compile.settings.job_config));
  if (compile.replicas == ReplicaPolicy::kCompare) more.emplace_back("copies compared");
  if (request.is_checked) more.emplace_back("checksums checked");
  return RequestText(compile.source, compile.target, more);
}

llvm::Error CheckRanks(int ranks, int ranks_of_target, const std::string& target) {
  if (ranks == 1 || ranks_of_target == 0 || ranks == ranks_of_target) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "`{}` is a job of {} ranks, and {} load; start as many, or load the files of one rank alone", target,
              ranks_of_target, ranks);
}

// A tensor in several boxes belongs to all ranks: each asks for the boxes that it needs.
llvm::Error CheckNotInBoxes(const Plan& plan, const std::string& target) {
  if (plan.target_mesh.Size(kBoxAxis) <= 1) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "`{}` cuts tensors into boxes, of which each rank of its job asks for some; load into the tensors of the "
              "job itself (ucp.load_into, ucp.torch.StorageReader), or to `universal` for whole tensors",
              target);
}

llvm::Expected<LoadPlan> PlanAtFirstRank(ReadableFileSystem& files, const LoadRequest& load_request, int ranks) {
  const CompileRequest& request = load_request.compile;
  UCP_RETURN_IF_ERROR(CheckIsWhole(files, request.source.path));
  SeenFiles seen(files);
  LoadPlan load;
  UCP_ASSIGN_OR_RETURN(Compiled compiled, Compile(seen, request));
  load.plan = std::move(compiled.plan);
  load.source_folder = compiled.source.folder;
  load.source = compiled.source.identity;
  load.source_versions = VersionsOf(seen, load.plan, load.source_folder);
  load.readers = std::exchange(load.plan.readers, {});
  UCP_RETURN_IF_ERROR(CheckRanks(ranks, load.readers.ranks, request.target));
  UCP_RETURN_IF_ERROR(CheckNotInBoxes(load.plan, request.target));
  return load;
}

std::set<std::string, std::less<>> NamesOf(const LoadPlan& load, int rank) {
  std::set<std::string, std::less<>> names;
  for (FileId file : load.FilesOf(rank)) {
    const std::string& path = load.plan.target.files[file.index()].path;
    names.insert(path.substr(path.rfind('/') + 1));
  }
  return names;
}

// The rank of the target that each rank is: itself, if that one opens what this one does, else the first that does.
llvm::Expected<std::vector<int>> RolesOf(const LoadPlan& load, const std::vector<std::vector<std::string>>& opens) {
  std::vector<int> roles;
  std::vector<std::set<std::string, std::less<>>> names;
  for (int rank = 0; rank < load.readers.ranks; ++rank) names.push_back(NamesOf(load, rank));
  for (std::size_t rank = 0; rank < opens.size(); ++rank) {
    auto opens_all = [&](const auto& of_role) {
      return std::ranges::all_of(opens[rank], [&](const std::string& name) { return of_role.contains(name); });
    };
    roles.push_back(static_cast<int>(rank));
    if (opens[rank].empty() || rank >= names.size() || opens_all(names[rank])) continue;
    if (auto role = std::ranges::find_if(names, opens_all); role != names.end()) {
      roles.back() = static_cast<int>(role - names.begin());
    }
  }
  return roles;
}

llvm::Expected<std::vector<std::vector<std::string>>> GatherOpens(Communicator& ranks,
                                                                  const std::vector<std::string>& mine) {
  wire::ByteWriter writer;
  for (const std::string& name : mine) writer.Add(std::string_view(name));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(writer.bytes()));
  std::vector<std::vector<std::string>> opens(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    wire::ByteReader reader(all[rank]);
    while (!reader.left().empty()) opens[rank].push_back(reader.Text());
    if (reader.has_failed()) {
      return Fail(ErrorCode::kIo,
                  "rank {} sent {} bytes that do not say which files it opens; all ranks must run the "
                  "same ucp",
                  rank, all[rank].size());
    }
  }
  return opens;
}

}  // namespace

std::vector<FileId> LoadPlan::FilesOf(int of_rank) const {
  std::vector<FileId> files;
  for (std::size_t file = 0; file < plan.target.files.size(); ++file) {
    if (readers.IsReadBy(FileId(file), of_rank)) files.push_back(FileId(file));
  }
  return files;
}

std::vector<RecordId> LoadPlan::RecordsOf(int of_rank) const {
  std::vector<RecordId> found;
  for (std::size_t record = 0; record < plan.target.records.size(); ++record) {
    if (readers.IsReadBy(plan.target.records[record].file, of_rank)) found.emplace_back(record);
  }
  return found;
}

std::optional<RecordId> LoadPlan::Find(RecordId name) const {
  if (records.empty()) return name;
  auto found = std::lower_bound(records.begin(), records.end(), name);
  if (found == records.end() || *found != name) return std::nullopt;
  return RecordId(static_cast<std::size_t>(found - records.begin()));
}

std::vector<RecordId> LoadPlan::Between(std::uint64_t first, std::uint64_t end) const {
  std::vector<RecordId> found;
  const std::uint64_t count = plan.target.records.size();
  auto is_before = [](RecordId name, std::uint64_t bound) { return name.index() < bound; };
  const auto begin = records.empty()
                         ? std::min(first, count)
                         : static_cast<std::uint64_t>(
                               std::lower_bound(records.begin(), records.end(), first, is_before) - records.begin());
  for (std::uint64_t record = begin; record < count && NameOf(RecordId(record)).index() < end; ++record) {
    found.emplace_back(record);
  }
  return found;
}

llvm::Expected<LoadPlan> CompileLoad(ReadableFileSystem& files, const LoadRequest& request, Communicator& ranks) {
  if (ranks.size() == 1) return PlanAtFirstRank(files, request, 1);
  UCP_RETURN_IF_ERROR(AgreeOnRequest(ranks, TextOf(request)));
  UCP_ASSIGN_OR_RETURN(const auto opens, GatherOpens(ranks, request.opens));
  LoadPlan load;
  std::vector<LoadedPart> parts;
  auto compile = [&](ReadableFileSystem& shared) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(load, PlanAtFirstRank(shared, request, ranks.size()));
    UCP_ASSIGN_OR_RETURN(const std::vector<int> roles, RolesOf(load, opens));
    for (int role : roles) parts.push_back({role, load.RecordsOf(role), load.FilesOf(role)});
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, WithSharedHeaders(files, ranks, compile)));
  UCP_ASSIGN_OR_RETURN(SharedLoad shared, ShareLoad(ranks, std::move(load), parts, request.is_checked));
  return std::move(shared.load);
}

}  // namespace ucp
