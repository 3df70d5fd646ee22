// `ucprun verify`: whether a checkpoint is what was written, and whether two are the same, whichever way they are cut.
#include <fmt/format.h>
#include <llvm/ADT/STLExtras.h>

#include <map>
#include <memory>
#include <optional>

#include "compiler/driver/command_line.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/conversion.h"
#include "runtime/driver/many_ranks.h"
#include "runtime/driver/progress.h"
#include "runtime/driver/source_digests.h"
#include "runtime/driver/verify_synthetic.h"
#include "runtime/manifest/check_files.h"
#include "runtime/manifest/find_manifest.h"

namespace ucp {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;

struct VerifyOptions {
  SourceOptions source;
  std::string same;
  bool synth = false;
  WorkOptions work;
};

using Digests = std::map<std::pair<std::string, std::string>, const StateDigest*>;

Digests ByName(const std::vector<StateDigest>& list) {
  Digests digests;
  for (const StateDigest& entry : list) digests[{entry.tensor, entry.state}] = &entry;
  return digests;
}

std::string Text(const StateDigest& digest) { return fmt::format("{} {}", Name(digest.dtype), digest.digest); }

// A sentence for each tensor and state that differs. What only one side has is one, too, unless `common` asks for what
// both have.
std::vector<std::string> Differences(const std::vector<StateDigest>& a, const std::string& name_a,
                                     const std::vector<StateDigest>& b, const std::string& name_b, bool common) {
  std::vector<std::string> found;
  const Digests of_a = ByName(a);
  const Digests of_b = ByName(b);
  for (const auto& [key, digest] : of_a) {
    auto other = of_b.find(key);
    if (other == of_b.end()) {
      if (!common) found.push_back(fmt::format("`{}` {} is only in {}", key.first, key.second, name_a));
    } else if (digest->dtype != other->second->dtype || digest->digest != other->second->digest) {
      found.push_back(fmt::format("`{}` {} differs: {} in {}, {} in {}", key.first, key.second, Text(*digest), name_a,
                                  Text(*other->second), name_b));
    }
  }
  if (common) return found;
  for (const auto& [key, digest] : of_b) {
    if (!of_a.contains(key)) found.push_back(fmt::format("`{}` {} is only in {}", key.first, key.second, name_b));
  }
  return found;
}

llvm::Expected<ExecutionOptions> SharedExecution(const WorkOptions& work, Communicator& ranks) {
  llvm::Expected<ExecutionOptions> execution = ExecutionOptionsFrom(work);
  UCP_RETURN_IF_ERROR(Agree(ranks, execution ? llvm::Error::success() : execution.takeError()));
  execution->ranks = &ranks;
  return execution;
}

// At rank 0. With `wrong`, every element is held against what `synth` writes, too.
llvm::Expected<std::vector<StateDigest>> DigestsOf(FileSystem& files, const SourceOptions& options,
                                                   const WorkOptions& work, Communicator& ranks,
                                                   std::vector<std::string>* wrong = nullptr) {
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.Request());
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, SharedExecution(work, ranks));
  const bool is_first = ranks.rank() == 0;
  ProgressLine progress;
  if (is_first) {
    execution.progress = [&progress](const ExecutionProgress& now) {
      progress.Show({now.bytes_done, now.bytes_total, 0, 0});  // No files are written.
    };
  }
  SourcePhase phase;
  llvm::Expected<ExecutionReport> report = ExecutionReport();
  if (wrong == nullptr) {
    report = DigestSource(files, request, execution, phase);
  } else if (auto check = CheckSynthetic(files, request, execution, phase)) {
    *wrong = std::move(check->wrong);
    report = std::move(check->report);
  } else {
    report = check.takeError();
  }
  if (phase.spec != nullptr) ShowDiagnostics(*phase.spec, work.json);
  if (!report) return report.takeError();
  if (!is_first) return std::vector<StateDigest>();
  for (const RoundingMismatch& mismatch : report->rounding_mismatches) {
    if (wrong != nullptr) break;  // They are among them.
    ShowMessage(
        fmt::format("warning: the model's weights of `{}` are not the rounding of their masters in {}. First: {}",
                    mismatch.tensor, Counted(mismatch.elements, "element"), mismatch.first));
  }
  for (const std::string& note : report->notes) ShowMessage("note: " + note);
  return std::move(report->digests);
}

struct Findings {
  std::vector<std::string> lines;        // What was done.
  std::vector<std::string> differences;  // What is not as it should be.
  std::vector<StateDigest> digests;
};

llvm::Error CheckManifest(FileSystem& files, const VerifyOptions& options, const FoundManifest& found,
                          Communicator& ranks, Findings& findings) {
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, SharedExecution(options.work, ranks));
  ParallelOptions parallel;
  parallel.threads = execution.threads;
  parallel.cancelled = execution.cancelled;
  Manifest mine;
  mine.files = FilesToCheck(found.manifest.files, ranks);
  llvm::Expected<std::vector<std::string>> faults = CheckFiles(files, found.root, mine, kWindowBytes, parallel);
  UCP_RETURN_IF_ERROR(Agree(ranks, faults ? llvm::Error::success() : faults.takeError()));
  UCP_ASSIGN_OR_RETURN(findings.differences, GatherTexts(ranks, *faults));
  std::uint64_t bytes = 0;
  for (const ManifestFile& file : found.manifest.files) bytes += file.bytes;
  findings.lines.push_back(
      fmt::format("files     {}, {}: {}", found.manifest.files.size(), HumanBytes(bytes),
                  findings.differences.empty() ? "as they were written" : "not as they were written"));
  return llvm::Error::success();
}

// Rank 0 has all of them.
llvm::Expected<Findings> Verify(const VerifyOptions& options, Communicator& ranks) {
  FileSystem& files = RealFileSystem();
  Findings findings;
  UCP_ASSIGN_OR_RETURN(std::optional<FoundManifest> found,
                       ShareManifest(ranks, ranks.rank() == 0 ? FindManifest(files, options.source.path)
                                                              : std::optional<FoundManifest>()));
  if (found) {
    UCP_RETURN_IF_ERROR(CheckManifest(files, options, *found, ranks, findings));
    if (!findings.differences.empty() && !options.synth) return findings;  // What differs can be said more exactly.
  } else {
    findings.lines.push_back(
        fmt::format("files     no {}: only that all of it can be read, and fits together", kManifestName));
  }
  std::vector<std::string> wrong;
  UCP_ASSIGN_OR_RETURN(findings.digests,
                       DigestsOf(files, options.source, options.work, ranks, options.synth ? &wrong : nullptr));
  std::vector<std::string> unlike_manifest;
  if (found) {
    unlike_manifest = Differences(findings.digests, "the files", found->manifest.states, "the manifest", true);
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
  if (options.same.empty()) return findings;
  SourceOptions other = options.source;
  other.path = options.same;
  UCP_ASSIGN_OR_RETURN(std::vector<StateDigest> others, DigestsOf(files, other, options.work, ranks));
  std::vector<std::string> differences =
      Differences(findings.digests, options.source.path, others, options.same, false);
  findings.lines.push_back(fmt::format("same      {} in {}: {}", Counted(others.size(), "state"), options.same,
                                       differences.empty() ? "bit for bit the same" : "not the same"));
  llvm::append_range(findings.differences, differences);
  return findings;
}

void Print(const VerifyOptions& options, const Findings& findings) {
  if (!options.work.json) {
    for (const std::string& line : findings.lines) PrintLine(line);
    for (const std::string& difference : findings.differences) ShowMessage("different: " + difference);
    return;
  }
  llvm::json::Array differences;
  for (const std::string& difference : findings.differences) differences.push_back(difference);
  llvm::json::Array states;
  for (const StateDigest& digest : findings.digests) {
    states.push_back(llvm::json::Object{{"tensor", digest.tensor},
                                        {"state", digest.state},
                                        {"dtype", std::string(Name(digest.dtype))},
                                        {"digest", digest.digest}});
  }
  PrintJson(llvm::json::Object{{"differences", std::move(differences)}, {"states", std::move(states)}});
}

int RunVerify(const VerifyOptions& options) {
  llvm::Expected<Communicator*> ranks = RanksOfThisRun();
  if (!ranks) return ShowError("ucprun", ranks.takeError(), options.work.json);
  llvm::Expected<Findings> findings = Verify(options, **ranks);
  if (!findings) return EndWith(findings.takeError(), options.work.json);
  if ((*ranks)->rank() != 0) return 0;  // The launcher ends with what rank 0 found.
  Print(options, *findings);
  return findings->differences.empty() ? 0 : kFoundDifference;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Is a checkpoint what was written, and are two the same whichever way they are cut?");
  command->footer(
      "  ucprun verify out/                      against its ucp_manifest.json\n"
      "  ucprun verify checkpoints/ --same out/  every tensor and state, bit by bit\n"
      "  ucprun verify out/ --synth              what `ucprun synth` wrote\n"
      "\n"
      "A checkpoint without a manifest is read all the same: checksums, and copies on other ranks. Exit code 3 if "
      "anything differs.");
  command->add_option("CHECKPOINT", options->source.path, "A folder that a conversion or a training wrote")->required();
  command->add_option("--same", options->same, "Another checkpoint, of any format, that must hold the same")
      ->type_name("DIR");
  command->add_flag("--synth", options->synth,
                    "Every element must be what `ucprun synth` writes, whatever the files were converted to since");
  command->add_option("--spec", options->source.spec, "How tensors are cut, as for `convert`; for both checkpoints")
      ->type_name("SPEC");
  AddSourceOptions(*command, options->source);
  AddDropStateOption(*command, options->source);
  AddWorkOptions(*command, options->work);
  command->callback([options, &exit_code] { exit_code = RunVerify(*options); });
}

}  // namespace ucp
