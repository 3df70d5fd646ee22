// `ucprun verify`: whether a checkpoint is what was written, and whether two are the same, whichever way they are cut.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/progress_line.h"
#include "runtime/command_line/watched_ranks.h"
#include "runtime/command_line/work_options.h"
#include "runtime/convert/many_ranks.h"
#include "runtime/convert/node_local.h"
#include "runtime/convert/parts_of_source.h"
#include "runtime/driver/commands.h"
#include "runtime/jobs/same_report.h"
#include "runtime/jobs/same_states.h"
#include "runtime/jobs/source_digests.h"
#include "runtime/jobs/verify_synthetic.h"
#include "runtime/manifest/check_files.h"
#include "runtime/manifest/find_manifest.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;

struct VerifyOptions {
  SourceTexts source;
  std::string same;
  bool bytes = false;
  bool synth = false;
  NodeLocal node_local;
  WorkOptions work;
};

using Digests = std::map<std::pair<std::string, std::string>, const StateDigest*>;

Digests ByName(const std::vector<StateDigest>& list) {
  Digests digests;
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
  const Digests by_name = ByName(promised);
  for (const auto& [key, digest] : ByName(found)) {
    const auto other = by_name.find(key);
    if (other == by_name.end()) continue;
    if (digest->dtype == other->second->dtype && digest->digest == other->second->digest) continue;
    unlike.push_back(fmt::format("`{}` {} differs: {} in the files, {} in the manifest", key.first, key.second,
                                 Text(*digest), Text(*other->second)));
  }
  return unlike;
}

llvm::Expected<ExecutionOptions> SharedExecution(const WorkOptions& work, Communicator& ranks) {
  llvm::Expected<ExecutionOptions> execution = ExecutionOptionsFrom(work);
  UCP_RETURN_IF_ERROR(Agree(ranks, execution ? llvm::Error::success() : execution.takeError()));
  execution->ranks = &ranks;
  return execution;
}

// How far the reading is; no files are written.
auto Shown(ProgressLine& line) {
  return [&line](const ExecutionProgress& now) { line.Show({now.bytes_done, now.bytes_total, 0, 0}); };
}

struct DigestsWanted {
  DigestVersion version = kDigestVersion;
  std::vector<std::string>* wrong = nullptr;  // Every element is held against what `synth` writes, too.
};

// The report is rank 0's.
llvm::Expected<DigestedSource> Digest(const VerifyOptions& options, const std::string& path, Communicator& ranks,
                                      const DigestsWanted& wanted = {}) {
  const WorkOptions& work = options.work;
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
  request.path = path;
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, SharedExecution(work, ranks));
  execution.digests = wanted.version;
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<FilesOfAllRanks> nodes,
                       NodesOfSource(RealFileSystem(), options.node_local, path, ranks));
  ReadableFileSystem& files = nodes == nullptr ? RealFiles() : nodes->files();
  execution.nodes = nodes.get();
  const bool is_first = ranks.rank() == 0;
  ProgressLine progress;
  if (is_first) execution.progress = Shown(progress);
  SourcePhase phase;
  llvm::Expected<DigestedSource> source = DigestedSource();
  if (wanted.wrong == nullptr) {
    source = DigestSource(files, request, execution, phase, nodes.get());
  } else if (auto check = CheckSynthetic(files, request, execution, phase, nodes.get())) {
    *wanted.wrong = std::move(check->wrong);
    source = std::move(check->source);
  } else {
    source = check.takeError();
  }
  if (phase.spec != nullptr) ShowDiagnostics(*phase.spec, work.json);
  if (!source || !is_first) return source;
  for (const RoundingMismatch& mismatch : source->report.rounding_mismatches) {
    if (wanted.wrong != nullptr) break;  // They are among them.
    ShowMessage(
        fmt::format("warning: the model's weights of `{}` are not the rounding of their masters in {}. First: {}",
                    mismatch.tensor, Counted(mismatch.elements, "element"), mismatch.first));
  }
  for (const std::string& note : source->report.notes) ShowMessage("note: " + note);
  return source;
}

struct Findings {
  std::vector<CheckpointIdentity> read;  // Each checkpoint whose tensors were.
  std::vector<std::string> lines;        // What was done.
  std::vector<std::string> differences;  // What is not as it should be.
  DigestVersion version = kDigestVersion;
  std::vector<StateDigest> digests;
  std::optional<SameStates> same;
};

// What is known of a checkpoint's files before they are read.
struct Promised {
  std::optional<FoundManifest> found;
  std::optional<PartsOfSource> parts;  // If each node has one.
  bool is_part_alone = false;          // Other parts' files are not here.
};

llvm::Expected<Promised> FindPromised(const VerifyOptions& options, Communicator& ranks) {
  FileSystem& files = RealFileSystem();
  const bool is_first = ranks.rank() == 0;
  Promised promised;
  UCP_RETURN_IF_ERROR(CheckNodeLocal(options.node_local, ranks));
  auto find = [&](ReadableFileSystem& seen) -> llvm::Expected<std::optional<FoundManifest>> {
    if (!is_first) return std::nullopt;
    return FindManifest(seen, options.source.path);
  };
  if (!options.node_local.source) {
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
  UCP_ASSIGN_OR_RETURN(promised.parts, FindPartsOfSource(files, options.source.path, ranks));
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
llvm::Expected<std::vector<std::string>> FaultsOfFiles(const VerifyOptions& options, const Promised& promised,
                                                       Communicator& ranks, std::vector<ManifestFile>& checked) {
  UCP_ASSIGN_OR_RETURN(const ExecutionOptions execution, SharedExecution(options.work, ranks));
  ParallelOptions parallel;
  parallel.threads = execution.threads;
  parallel.cancelled = execution.cancelled;
  std::unique_ptr<FilesOfAllRanks> nodes;
  if (options.node_local.source && !promised.parts) {
    UCP_ASSIGN_OR_RETURN(nodes, FilesOfAllRanks::Start(ranks, RealFileSystem()));
  }
  Manifest mine;
  mine.digests = promised.found->manifest.digests;
  mine.files = MyFiles(promised, ranks);
  checked = mine.files;
  llvm::Expected<std::vector<std::string>> faults = CheckFiles(nodes == nullptr ? RealFileSystem() : nodes->files(),
                                                               promised.found->root, mine, kWindowBytes, parallel);
  UCP_RETURN_IF_ERROR(Agree(ranks, faults ? llvm::Error::success() : faults.takeError()));
  if (promised.parts) {
    const int part = promised.parts->part_of_rank[static_cast<std::size_t>(ranks.rank())];
    for (std::string& fault : *faults) fault = fmt::format("part {}: {}", part, fault);
  }
  return faults;
}

llvm::Error CheckManifest(const VerifyOptions& options, const Promised& promised, Communicator& ranks,
                          Findings& findings) {
  std::vector<ManifestFile> mine;
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> faults, FaultsOfFiles(options, promised, ranks, mine));
  UCP_ASSIGN_OR_RETURN(findings.differences, GatherTexts(ranks, faults));
  std::vector<std::string> sizes;
  for (const ManifestFile& file : mine) sizes.push_back(std::to_string(file.bytes));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherTexts(ranks, sizes));
  std::uint64_t bytes = 0;
  for (const std::string& size : all) bytes += std::stoull(size);
  const ManifestPart& part = promised.found->manifest.part;
  if (promised.parts) {
    for (int number = 1; number <= part.count; ++number) {
      if (!promised.parts->RanksWith(number).empty()) continue;
      findings.differences.push_back(fmt::format("part {} of {} is at none of the ranks", number, part.count));
    }
  }
  findings.lines.push_back(
      fmt::format("files     {}, {}{}: {}", all.size(), HumanBytes(bytes),
                  promised.parts ? fmt::format(" in {} parts", part.count) : "",
                  findings.differences.empty() ? "as they were written" : "not as they were written"));
  return llvm::Error::success();
}

// Of one part nothing can be said but that its files are what was written.
llvm::Expected<Findings> OfPartAlone(const VerifyOptions& options, const ManifestPart& part, Findings findings) {
  if (options.synth || !options.same.empty()) {
    return Fail(ErrorCode::kBadData,
                "`{}` is {} (run {}), and {} needs all parts; read them together under mpirun with "
                "--node-local source",
                options.source.path, Name(part), part.run, options.synth ? "--synth" : "--same");
  }
  findings.lines.push_back(
      fmt::format("part      {} (run {}): its files alone; under mpirun, --node-local source reads the tensors of all",
                  Name(part), part.run));
  return findings;
}

// Digests of an earlier version prove little, so there the elements are compared.
llvm::Error AddSame(const VerifyOptions& options, Communicator& ranks, const DigestedSource& source,
                    Findings& findings) {
  UCP_ASSIGN_OR_RETURN(const DigestedSource other, Digest(options, options.same, ranks));
  findings.read.push_back(other.run.source);
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, SharedExecution(options.work, ranks));
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<FilesOfAllRanks> nodes,
                       NodesOfSource(RealFileSystem(), options.node_local, options.source.path, ranks));
  ProgressLine progress;
  if (ranks.rank() == 0) execution.progress = Shown(progress);
  const bool by_elements = options.bytes || findings.version != kDigestVersion;
  UCP_ASSIGN_OR_RETURN(findings.same, FindSame(RealFileSystem(), {options.source.path, source}, {options.same, other},
                                               by_elements, execution, nodes.get()));
  llvm::append_range(findings.lines, SameLines(*findings.same, options.same, other.report.digests.size()));
  llvm::append_range(findings.differences, findings.same->differences);
  return llvm::Error::success();
}

// Rank 0 has all of them.
llvm::Expected<Findings> Verify(const VerifyOptions& options, Communicator& ranks) {
  Findings findings;
  UCP_ASSIGN_OR_RETURN(const Promised promised, FindPromised(options, ranks));
  const std::optional<FoundManifest>& found = promised.found;
  if (found) {
    UCP_RETURN_IF_ERROR(CheckManifest(options, promised, ranks, findings));
    if (promised.is_part_alone) return OfPartAlone(options, found->manifest.part, std::move(findings));
    if (!findings.differences.empty() && !options.synth) return findings;  // What differs can be said more exactly.
  } else {
    findings.lines.push_back(
        fmt::format("files     no {}: only that all of it can be read, and fits together", kManifestName));
  }
  std::vector<std::string> wrong;
  if (found) findings.version = found->manifest.digests;
  UCP_ASSIGN_OR_RETURN(const DigestedSource source, Digest(options, options.source.path, ranks,
                                                           {findings.version, options.synth ? &wrong : nullptr}));
  findings.read.push_back(source.run.source);
  findings.digests = source.report.digests;
  std::vector<std::string> unlike_manifest;
  if (found) {
    unlike_manifest = UnlikeManifest(findings.digests, found->manifest.states);
    llvm::append_range(findings.differences, unlike_manifest);
  }
  findings.lines.push_back(fmt::format("tensors   {} in {}{}", Counted(findings.digests.size(), "state"),
                                       options.source.path,
                                       !found                    ? ""
                                       : unlike_manifest.empty() ? ": as in the manifest"
                                                                 : ": not as in the manifest"));
  if (options.synth) {
    findings.lines.push_back(fmt::format(
        "synthetic {}", wrong.empty() ? "every element is what `synth` writes" : "not what `synth` writes"));
    llvm::append_range(findings.differences, wrong);
  }
  if (!options.same.empty()) UCP_RETURN_IF_ERROR(AddSame(options, ranks, source, findings));
  return findings;
}

void PrintText(const Findings& findings) {
  for (const CheckpointIdentity& read : findings.read) {
    for (const std::string& line : IdentityLines(read, "read", 10)) PrintReportLine(line);
  }
  for (const std::string& line : findings.lines) PrintReportLine(line);
  for (const std::string& difference : findings.differences) ShowMessage("different: " + difference);
}

void WriteFindings(const Findings& findings, llvm::json::OStream& json) {
  json.object([&] {
    json.attributeArray("checkpoints", [&] {
      for (const CheckpointIdentity& read : findings.read) json.value(IdentityJson(read));
    });
    json.attribute("differences", findings.differences);
    json.attribute("digest_version", static_cast<int>(findings.version));
    json.attributeArray("states", [&] {
      for (const StateDigest& digest : findings.digests) {
        json.value(llvm::json::Object{{"tensor", digest.tensor},
                                      {"state", digest.state},
                                      {"dtype", std::string(Name(digest.dtype))},
                                      {"shape", llvm::json::Array(*digest.shape)},
                                      {"digest", digest.digest}});
      }
    });
    if (findings.same) json.attribute("same", SameJson(*findings.same));
  });
}

llvm::Error Print(const VerifyOptions& options, const Findings& findings) {
  if (options.work.json) return PrintJsonBy([&](llvm::json::OStream& json) { WriteFindings(findings, json); });
  PrintText(findings);
  return llvm::Error::success();
}

int RunVerify(const VerifyOptions& options) {
  llvm::Expected<Communicator*> ranks = WatchedRanks(options.work.rank_timeout, false);
  if (!ranks) return ShowError("ucprun", ranks.takeError(), options.work.json);
  llvm::Expected<Findings> findings = Verify(options, **ranks);
  if (!findings) return EndWith(findings.takeError(), options.work.json);
  if ((*ranks)->rank() != 0) return 0;  // The launcher ends with what rank 0 found.
  if (llvm::Error error = Print(options, *findings)) return EndWith(std::move(error), options.work.json);
  return findings->differences.empty() ? 0 : kFoundDifference;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Check that a checkpoint is what was written, or that two are the same, however they are cut.");
  command->footer(
      "  ucprun verify out/                      against its ucp_manifest.json\n"
      "  ucprun verify checkpoints/ --same out/  every tensor and state, bit by bit\n"
      "  ucprun verify checkpoints/ --same model/ --bytes\n"
      "                                          the elements themselves\n"
      "  ucprun verify out/ --synth              what `ucprun synth` wrote\n"
      "\n"
      "A checkpoint without a manifest is read all the same: checksums, and copies on other ranks. Exit code 3 if "
      "anything differs.");
  command->add_option("CHECKPOINT", options->source.path, "A folder that a conversion or a training run wrote")
      ->required();
  command->add_option("--same", options->same, "Another checkpoint, of any format, that must hold the same")
      ->type_name("DIR");
  command
      ->add_flag("--bytes", options->bytes,
                 "With --same: compare the elements of both checkpoints themselves, and not their digests")
      ->needs("--same");
  command->add_flag("--synth", options->synth,
                    "Every element must be what `ucprun synth` writes, whatever the files were converted to since");
  command->add_option("--spec", options->source.spec, "How tensors are cut, as for `convert`; for both checkpoints")
      ->type_name("SPEC");
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddNodeLocalOption(*command, options->node_local, NodeLocalUse::kReads);
  AddWorkOptions(*command, options->work);
  AddRankTimeoutOption(*command, options->work.rank_timeout);
  AddIgnoreCrcOption(*command, options->work);
  command->callback([options, &exit_code] { exit_code = RunVerify(*options); });
}

}  // namespace ucp
