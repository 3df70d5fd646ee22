#include "runtime/jobs/verify/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"
#include "runtime/destination/many_ranks.h"
#include "runtime/manifest/check_files.h"
#include "runtime/manifest/find_manifest.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/peer_files/parts_of_source.h"
#include "runtime/same_states/same_report.h"
#include "runtime/same_states/source_digests.h"
#include "runtime/synth/verify_synthetic.h"

namespace ucp {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;

struct Job {
  const VerifyRequest& request;
  const ExecutionOptions& execution;
  const JobHooks& hooks;
};

using DigestsByName = std::map<std::pair<std::string, std::string>, const StateDigest*>;

DigestsByName ByName(const std::vector<StateDigest>& list) {
  DigestsByName digests;
  for (const StateDigest& entry : list) digests[{entry.tensor, entry.state}] = &entry;
  return digests;
}

std::string Text(const StateDigest& digest) {
  const std::string shape = digest.shape ? fmt::format(" [{}]", fmt::join(*digest.shape, ", ")) : "";
  return fmt::format("{}{} {}", Name(digest.dtype), shape, digest.digest);
}

// A sentence for each tensor and state that both have and that differs.
std::vector<std::string> UnlikeManifest(const std::vector<StateDigest>& found,
                                        const std::vector<StateDigest>& promised) {
  std::vector<std::string> unlike;
  const DigestsByName by_name = ByName(promised);
  for (const auto& [key, digest] : ByName(found)) {
    const auto other = by_name.find(key);
    if (other == by_name.end()) continue;
    if (digest->dtype == other->second->dtype && digest->digest == other->second->digest) continue;
    unlike.push_back(fmt::format("`{}` {} differs: {} in the files, {} in the manifest", key.first, key.second,
                                 Text(*digest), Text(*other->second)));
  }
  return unlike;
}

struct DigestsWanted {
  DigestVersion version = kDigestVersion;
  std::vector<std::string>* wrong = nullptr;  // Every element is also compared with the output of `synth`.
  std::string as_layout = {};                 // Of the spec's model: whose tensors they are of; empty: its own.
};

// The report is rank 0's.
llvm::Expected<DigestedSource> Digest(const Job& job, const std::string& path, Communicator& ranks,
                                      const DigestsWanted& wanted = {}) {
  UCP_ASSIGN_OR_RETURN(SourceRequest request, job.request.source.Request());
  request.path = path;
  request.as_layout = wanted.as_layout;
  ExecutionOptions execution = job.execution;
  execution.digests = wanted.version;
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<FilesOfAllRanks> nodes,
                       NodesOfSource(RealFiles(), job.request.node_local, path, ranks));
  ReadableFileSystem& files = nodes == nullptr ? RealFiles() : nodes->files();
  execution.nodes = nodes.get();
  const bool is_first = ranks.rank() == 0;
  if (is_first) execution.progress = job.hooks.begin_progress();
  OpenedSpec spec;
  request.opened = &spec;
  llvm::Expected<DigestedSource> source = DigestedSource();
  if (wanted.wrong == nullptr) {
    source = DigestSource(files, request, execution, nodes.get());
  } else if (auto check = CheckSynthetic(files, request, execution, nodes.get())) {
    *wanted.wrong = std::move(check->wrong);
    source = std::move(check->source);
  } else {
    source = check.takeError();
  }
  execution.progress = nullptr;
  if (spec != nullptr) job.hooks.bound(*spec);
  if (!source || !is_first) return source;
  for (const RoundingMismatch& mismatch : source->report.rounding_mismatches) {
    if (wanted.wrong != nullptr) break;  // They are among them.
    job.hooks.warn(fmt::format("the model's weights of `{}` are not the rounding of their masters in {}. First: {}",
                               mismatch.tensor, Counted(mismatch.elements, "element"), mismatch.first));
  }
  for (const std::string& note : source->report.notes) job.hooks.note(note);
  return source;
}

// The known facts of a checkpoint's files before they are read.
struct Promised {
  std::optional<FoundManifest> found;
  std::optional<PartsOfSource> parts;  // If each node has one.
  bool is_part_alone = false;          // Other parts' files are not here.
};

llvm::Expected<Promised> FindPromised(const Job& job, Communicator& ranks) {
  ReadableFileSystem& files = RealFiles();
  const bool is_first = ranks.rank() == 0;
  Promised promised;
  UCP_RETURN_IF_ERROR(CheckNodeLocal(job.request.node_local, ranks));
  auto find = [&](ReadableFileSystem& seen) -> llvm::Expected<std::optional<FoundManifest>> {
    if (!is_first) return std::nullopt;
    return FindManifest(seen, job.request.source.path);
  };
  if (!job.request.node_local.source) {
    UCP_ASSIGN_OR_RETURN(promised.found, ShareManifest(ranks, find(files)));
    if (!promised.found || promised.found->manifest.part.number == 0) return promised;
    bool is_alone = false;  // As rank 0 sees it: others may see another disk, and all must go the same way.
    auto look = [&]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(const std::vector<ManifestFile> elsewhere, FilesElsewhere(files, *promised.found));
      is_alone = std::ranges::any_of(
          elsewhere, [&](const ManifestFile& file) { return !IsIn(file, promised.found->manifest.part.number); });
      return llvm::Error::success();
    };
    UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, is_first ? look() : llvm::Error::success()));
    UCP_ASSIGN_OR_RETURN(const std::string alone, FromFirstRank(ranks, is_alone ? "alone" : ""));
    promised.is_part_alone = !alone.empty();
    return promised;
  }
  UCP_ASSIGN_OR_RETURN(promised.parts, FindPartsOfSource(files, job.request.source.path, ranks));
  if (promised.parts) {
    promised.found = promised.parts->found;
    return promised;
  }
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<FilesOfAllRanks> nodes, FilesOfAllRanks::Start(ranks, files));
  UCP_ASSIGN_OR_RETURN(promised.found, ShareManifest(ranks, find(nodes->files())));
  return promised;
}

// The files that this rank is to check: of a part, those of its node.
std::vector<ManifestFile> MyFiles(const Promised& promised, Communicator& ranks) {
  std::vector<ManifestFile> files = promised.found->manifest.files;
  const int alone = promised.found->manifest.part.number;
  if (promised.is_part_alone) std::erase_if(files, [&](const ManifestFile& file) { return !IsIn(file, alone); });
  if (!promised.parts) return FilesToCheck(files, ranks.rank(), ranks.size());
  const int part = promised.parts->part_of_rank[static_cast<std::size_t>(ranks.rank())];
  if (part == 0) return {};
  std::erase_if(files, [&](const ManifestFile& file) { return !IsIn(file, part); });
  const std::vector<int> of_part = promised.parts->RanksWith(part);
  const auto place = std::ranges::find(of_part, ranks.rank()) - of_part.begin();
  return FilesToCheck(files, static_cast<int>(place), static_cast<int>(of_part.size()));
}

// Each node's own disk, or the one that all see, or, where files lie anywhere, whoever has them.
llvm::Expected<std::vector<std::string>> FaultsOfFiles(const Job& job, const Promised& promised, Communicator& ranks,
                                                       std::vector<ManifestFile>& checked) {
  ParallelOptions parallel;
  parallel.threads = job.execution.threads;
  parallel.cancelled = job.execution.cancelled;
  std::unique_ptr<FilesOfAllRanks> nodes;
  if (job.request.node_local.source && !promised.parts) {
    UCP_ASSIGN_OR_RETURN(nodes, FilesOfAllRanks::Start(ranks, RealFiles()));
  }
  Manifest mine;
  mine.digests = promised.found->manifest.digests;
  mine.files = MyFiles(promised, ranks);
  checked = mine.files;
  llvm::Expected<std::vector<std::string>> faults =
      CheckFiles(nodes == nullptr ? RealFiles() : nodes->files(), promised.found->root, mine, kWindowBytes, parallel);
  UCP_RETURN_IF_ERROR(Agree(ranks, faults ? llvm::Error::success() : faults.takeError()));
  if (promised.parts) {
    const int part = promised.parts->part_of_rank[static_cast<std::size_t>(ranks.rank())];
    for (std::string& fault : *faults) fault = fmt::format("part {}: {}", part, fault);
  }
  return faults;
}

llvm::Error CheckManifest(const Job& job, const Promised& promised, Communicator& ranks, VerifyReport& report) {
  std::vector<ManifestFile> mine;
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> faults, FaultsOfFiles(job, promised, ranks, mine));
  UCP_ASSIGN_OR_RETURN(report.differences, GatherTexts(ranks, faults));
  std::vector<std::string> sizes;
  for (const ManifestFile& file : mine) sizes.push_back(std::to_string(file.bytes));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherTexts(ranks, sizes));
  std::uint64_t bytes = 0;
  for (const std::string& size : all) bytes += std::stoull(size);
  const ManifestPart& part = promised.found->manifest.part;
  if (promised.parts) {
    for (int number = 1; number <= part.count; ++number) {
      if (!promised.parts->RanksWith(number).empty()) continue;
      report.differences.push_back(fmt::format("part {} of {} is at none of the ranks", number, part.count));
    }
  }
  report.lines.push_back(fmt::format("files     {}, {}{}: {}", all.size(), HumanBytes(bytes),
                                     promised.parts ? fmt::format(" in {} parts", part.count) : "",
                                     report.differences.empty() ? "as they were written" : "not as they were written"));
  return llvm::Error::success();
}

// Of one part nothing can be said but that its files are what was written.
llvm::Expected<VerifyReport> OfPartAlone(const Job& job, const ManifestPart& part, VerifyReport report) {
  if (job.request.synth || !job.request.same.empty()) {
    return Fail(ErrorCode::kBadData,
                "`{}` is {} (run {}), and {} needs all parts; read them together under mpirun with {}",
                job.request.source.path, Name(part), part.run,
                OptionName(job.request.synth ? UserOption::kSynth : UserOption::kSame),
                OptionName(UserOption::kNodeLocal, "source"));
  }
  report.lines.push_back(
      fmt::format("part      {} (run {}): its files alone; under mpirun, {} reads the tensors of all", Name(part),
                  part.run, OptionName(UserOption::kNodeLocal, "source")));
  return report;
}

// A sum is rounded, so an offset may make different numbers equal.
void AddOffsets(const DigestedSource& source, const std::string& path, VerifyReport& report) {
  const auto has_offset = [](const auto& tensor) { return tensor.arithmetic.offset != 0; };
  report.offset_tensors = static_cast<std::uint64_t>(std::ranges::count_if(source.run.plan.tensors, has_offset));
  if (report.offset_tensors == 0) return;
  report.lines.push_back(fmt::format("offsets   weights and masters of {} of {} are compared after an offset, rounded",
                                     Counted(report.offset_tensors, "tensor"), path));
}

// The facts of the two may differ, and with them the offsets of one layout.
llvm::Error RefuseOtherOffsets(const Job& job, const DigestedSource& source, const DigestedSource& other) {
  if (source.layout.empty() || other.layout.empty() || source.offsets == other.offsets) return llvm::Error::success();
  const auto offset_in = [](const DigestedSource& side, const std::string& name) {
    const auto found = side.offsets.find(name);
    return found == side.offsets.end() ? 0 : found->second;
  };
  std::set<std::string_view> names;
  for (const WholeTensor& tensor : source.tensors) names.insert(tensor.name);
  for (const WholeTensor& tensor : other.tensors) {
    const std::int64_t first = offset_in(source, tensor.name);
    const std::int64_t second = offset_in(other, tensor.name);
    if (first == second || !names.contains(tensor.name)) continue;
    return Fail(ErrorCode::kUsage,
                "the spec gives `{}` offset({}) by the facts of `{}`, and offset({}) by those of `{}`; name the fact "
                "that decides it with {}",
                tensor.name, first, job.request.source.path, second, job.request.same, OptionName(UserOption::kSets));
  }
  return llvm::Error::success();
}

// Where the two have different layouts of one model, the first one is read again as the tensors of the second's.
llvm::Error SeeAsOther(const Job& job, Communicator& ranks, const DigestedSource& other, DigestedSource& source,
                       VerifyReport& report) {
  const std::string& path = job.request.source.path;
  const bool differ = source.layout != other.layout && !source.layout.empty() && !other.layout.empty();
  UCP_ASSIGN_OR_RETURN(const std::string layout, FromFirstRank(ranks, differ ? other.layout : ""));
  if (layout.empty()) return llvm::Error::success();
  report.lines.push_back(fmt::format("layouts   `{}` in {}, `{}` in {}: the first is compared as the second",
                                     source.layout, path, layout, job.request.same));
  UCP_ASSIGN_OR_RETURN(source, Digest(job, path, ranks, {.as_layout = layout}));
  AddOffsets(source, path, report);
  return llvm::Error::success();
}

// Digests of an earlier version prove little, so there the elements are compared.
llvm::Error AddSame(const Job& job, Communicator& ranks, DigestedSource source, VerifyReport& report) {
  UCP_ASSIGN_OR_RETURN(const DigestedSource other, Digest(job, job.request.same, ranks));
  report.read.push_back(other.run.source);
  UCP_RETURN_IF_ERROR(SeeAsOther(job, ranks, other, source, report));
  UCP_RETURN_IF_ERROR(
      OutcomeOfFirstRank(ranks, ranks.rank() == 0 ? RefuseOtherOffsets(job, source, other) : llvm::Error::success()));
  ExecutionOptions execution = job.execution;
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<FilesOfAllRanks> nodes,
                       NodesOfSource(RealFiles(), job.request.node_local, job.request.source.path, ranks));
  if (ranks.rank() == 0) execution.progress = job.hooks.begin_progress();
  const bool by_elements = job.request.by_elements || report.version != kDigestVersion;
  UCP_ASSIGN_OR_RETURN(report.same, FindSame(RealFiles(), {job.request.source.path, source}, {job.request.same, other},
                                             by_elements, execution, nodes.get()));
  llvm::append_range(report.lines, SameLines(*report.same, job.request.same, other.report.digests.size()));
  llvm::append_range(report.differences, report.same->differences);
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<VerifyReport> Verify(const VerifyRequest& request, const ExecutionOptions& execution,
                                    const JobHooks& hooks) {
  const Job job{request, execution, hooks};
  Communicator& ranks = execution.ranks == nullptr ? SingleProcess() : *execution.ranks;
  VerifyReport report;
  UCP_ASSIGN_OR_RETURN(const Promised promised, FindPromised(job, ranks));
  const std::optional<FoundManifest>& found = promised.found;
  if (found) {
    UCP_RETURN_IF_ERROR(CheckManifest(job, promised, ranks, report));
    if (promised.is_part_alone) return OfPartAlone(job, found->manifest.part, std::move(report));
    if (!report.differences.empty() && !job.request.synth) return report;  // The differences can be named more exactly.
  } else {
    report.lines.push_back(
        fmt::format("files     no {}: only that all of it can be read, and fits together", kManifestName));
  }
  std::vector<std::string> wrong;
  if (found) report.version = found->manifest.digests;
  UCP_ASSIGN_OR_RETURN(DigestedSource source, Digest(job, job.request.source.path, ranks,
                                                     {report.version, job.request.synth ? &wrong : nullptr, ""}));
  report.read.push_back(source.run.source);
  report.digests = source.report.digests;
  std::vector<std::string> unlike_manifest;
  if (found) {
    unlike_manifest = UnlikeManifest(report.digests, found->manifest.states);
    llvm::append_range(report.differences, unlike_manifest);
  }
  report.lines.push_back(fmt::format("tensors   {} in {}{}", Counted(report.digests.size(), "state"),
                                     job.request.source.path,
                                     !found                    ? ""
                                     : unlike_manifest.empty() ? ": as in the manifest"
                                                               : ": not as in the manifest"));
  if (job.request.synth) {
    report.lines.push_back(fmt::format(
        "synthetic {}", wrong.empty() ? "every element is what `synth` writes" : "not what `synth` writes"));
    llvm::append_range(report.differences, wrong);
  }
  if (!job.request.same.empty()) UCP_RETURN_IF_ERROR(AddSame(job, ranks, std::move(source), report));
  return report;
}

void WriteVerifyReport(const VerifyReport& report, llvm::json::OStream& json) {
  json.object([&] {
    json.attributeArray("checkpoints", [&] {
      for (const CheckpointIdentity& read : report.read) json.value(IdentityJson(read));
    });
    json.attribute("differences", report.differences);
    json.attribute("digest_version", static_cast<int>(report.version));
    json.attributeArray("states", [&] {
      for (const StateDigest& digest : report.digests) {
        json.value(llvm::json::Object{{"tensor", digest.tensor},
                                      {"state", digest.state},
                                      {"dtype", std::string(Name(digest.dtype))},
                                      {"shape", llvm::json::Array(*digest.shape)},
                                      {"digest", digest.digest}});
      }
    });
    if (report.same) json.attribute("offset_tensors", report.offset_tensors);
    if (report.same) json.attribute("same", SameJson(*report.same));
    json.attribute("version", kJsonVersion);
  });
}

}  // namespace ucp
