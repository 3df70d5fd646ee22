#include "runtime/destination/run_destination.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/plan/codec.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "runtime/comm/nodes.h"
#include "runtime/destination/check_folders_differ.h"
#include "runtime/destination/deal_files.h"
#include "runtime/destination/many_ranks.h"
#include "runtime/executor/execute_parts.h"
#include "runtime/manifest/check_destination.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

std::string GoOn() { return "the same command with " + OptionName(UserOption::kResume); }

// Single weights that are not roundings of their masters are reported. When most of those are not that a rank holds of
// a tensor, these are not the masters of its model, and a conversion would carry wrong values on. Other ranks' copies
// and shards may be sound, and other files of the same shard, so each counts for itself.
llvm::Error CheckMastersBelong(const ExecutionReport& report, const Plan& plan) {
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) {
    const RoundingMismatch::Worst& worst = mismatch.worst;
    if (worst.elements <= worst.of / 2) continue;
    const std::string found =
        fmt::format("{} of the {} weights of `{}` that a rank holds in one file are not the rounding of their masters",
                    worst.elements, worst.of, mismatch.tensor);
    if (plan.source_format == "megatron") {  // Its masters are of no use then, and nor are its moments.
      return Fail(ErrorCode::kBadData,
                  "{}; first: {}. Megatron Core 0.15 to 0.16.1 shifts masters and moments that it saves as "
                  "`fully_reshardable` if a buffer has several buckets. The weights are right: {} writes them. `ucprun "
                  "convert` "
                  "can also repair the states (its help says how); if it was asked to, convert without that",
                  found, worst.first, OptionName(UserOption::kTo, "safetensors"));
    }
    return Fail(ErrorCode::kBadData,
                "{}, so these files do not belong together; first: {}. Pass {} to take the masters all the same", found,
                worst.first, OptionName(UserOption::kReplicas, "trust"));
  }
  return llvm::Error::success();
}

// A part that an earlier run completed lists what this run wrote (P6).
llvm::Error CheckAgrees(const Manifest& complete, const Plan& plan, const ExecutionReport& report) {
  std::map<std::string, std::string> digests;
  for (const ManifestFile& file : complete.files) digests[file.path] = file.digest;
  for (std::size_t i = 0; i < plan.target.files.size(); ++i) {
    const std::string& path = plan.target.files[i].path;
    if (report.file_digests[i].empty() || report.file_digests[i] == digests[path]) continue;
    return Fail(
        ErrorCode::kBadData,
        "`{}` has the digest {} now, and had {} when {} was completed, so the source was changed since; convert "
        "all of it again with {}",
        path, report.file_digests[i], digests[path], Name(complete.part), OptionName(UserOption::kForce));
  }
  return llvm::Error::success();
}

std::string PartText(const std::optional<TargetParts>& parts, int part) {
  return parts ? fmt::format("part {} of {}", part + 1, parts->count) : "";
}

}  // namespace

// The part of the target's files that each rank is to write: ranks that see one folder have one part.
llvm::Error RunDestination::FindParts(const ExecutionOptions& execution) {
  llvm::Expected<FileStatus> parent = files_.Status(ParentOf(options_.destination));
  llvm::Error error = parent.takeError();
  if (!error && parent->kind != PathKind::kDirectory) {
    error = Fail(ErrorCode::kUsage, "`{}` cannot be written: there is no folder `{}`", options_.destination,
                 ParentOf(options_.destination));
  }
  UCP_RETURN_IF_ERROR(Agree(ranks_, std::move(error)));
  const int node = execution.node_of_rank[static_cast<std::size_t>(ranks_.rank())];
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                       ranks_.AllGather(fmt::format("{} {} {}", node, parent->device, parent->inode)));
  std::vector<int> part_of_rank = NumberNodes(folders);
  if (*std::ranges::max_element(part_of_rank) == 0) return llvm::Error::success();
  TargetParts dealt;
  if (ranks_.rank() == 0) dealt = DealFiles(plan_.readers, plan_.target.files.size(), part_of_rank);
  UCP_ASSIGN_OR_RETURN(const std::string tables, FromFirstRank(ranks_, EncodeDealt(dealt)));
  llvm::Expected<TargetParts> parts = DecodeDealt(tables, plan_.target.files.size(), std::move(part_of_rank));
  UCP_RETURN_IF_ERROR(Agree(ranks_, parts ? llvm::Error::success() : parts.takeError()));
  parts_ = std::move(*parts);
  return CheckFoldersDiffer(files_, options_.destination, *parts_, ranks_);
}

llvm::Expected<std::unique_ptr<RunDestination>> RunDestination::Begin(FileSystem& files, const PlannedRun& run,
                                                                      const DestinationOptions& options,
                                                                      std::function<void()> appeared,
                                                                      ExecutionOptions& execution) {
  std::unique_ptr<RunDestination> destination(
      new RunDestination(files, run, options, std::move(appeared), *execution.ranks));
  if (options.node_local.destination) UCP_RETURN_IF_ERROR(destination->FindParts(execution));
  UCP_RETURN_IF_ERROR(
      destination->Settle(destination->is_leader() ? destination->Stage(execution) : llvm::Error::success()));
  UCP_RETURN_IF_ERROR(destination->TellOthers());
  return destination;
}

// The work of leaders has one outcome for all.
llvm::Error RunDestination::Settle(llvm::Error error) {
  return parts_ ? Agree(ranks_, std::move(error)) : OutcomeOfFirstRank(ranks_, std::move(error));
}

llvm::Error RunDestination::Stage(ExecutionOptions& execution) {
  UCP_RETURN_IF_ERROR(CheckDestination(files_, run_.source_folder, options_.destination, options_.force));
  if (options_.force && !options_.resume) UCP_RETURN_IF_ERROR(CheckNothingElse(files_, options_.destination));
  std::string plan_hash = run_.plan_hash;
  if (plan_hash.empty()) {
    UCP_ASSIGN_OR_RETURN(plan_hash, HashOfPlan(plan_));
  }
  identity_ = {
      ToolOfRuns(),       SourceIdentity(plan_), plan_hash, execution.verify_source_crc, PartText(parts_, part()),
      options_.has_source};
  const std::uint64_t bytes = parts_ ? parts_->BytesOf(part(), plan_.target.files) : Totals(plan_).bytes_to_write;
  const auto ranks = parts_ ? std::ranges::count(parts_->part_of_rank, part()) : ranks_.size();
  const StagingOptions staging{
      options_.force,         bytes, run_.source_folder, options_.resume, [&] { return IsComplete(); },
      static_cast<int>(ranks)};
  llvm::Expected<Staging> begun = Staging::Begin(files_, options_.destination, staging);
  if (!begun) return begun.takeError();
  staging_.emplace(std::move(*begun));
  // The work of a completed earlier run is not replaced.
  if (options_.force && options_.resume && !staging_->is_complete()) {
    UCP_RETURN_IF_ERROR(CheckNothingElse(files_, options_.destination));
  }
  for (const std::string& entry : staging_->entries_before()) {
    UCP_ASSIGN_OR_RETURN(std::string progress, ProgressOf(entry, identity_, options_.destination));
    execution.progress_before.push_back(std::move(progress));
  }
  return llvm::Error::success();
}

// The rest of the earlier run is what this plan makes of this source, in this part.
llvm::Expected<bool> RunDestination::IsComplete() {
  llvm::Expected<std::optional<Manifest>> found = ReadManifest(files_, options_.destination);
  if (!found) {
    llvm::consumeError(found.takeError());  // A damaged one says nothing.
    return false;
  }
  if (!*found) return false;
  Manifest& manifest = **found;
  const ManifestPart here =
      parts_ ? ManifestPart{part() + 1, parts_->count, RunOfParts(identity_.plan, parts_->count)} : ManifestPart();
  const bool is_ours = manifest.tool == ToolName() && manifest.source == identity_.source &&
                       manifest.plan == identity_.plan && manifest.part == here &&
                       (!parts_ || manifest.digests == kDigestVersion);  // Parts' digests are compared.
  if (is_ours) complete_ = std::move(manifest);
  return is_ours;
}

llvm::Error RunDestination::TellOthers() {
  StagedRun staged;
  if (is_leader()) {
    staged = {staging_->ForOtherRanks(), ComposeEntry(identity_, "")};
    if (staging_->is_complete()) {
      staged.where.folder.clear();
      if (parts_) staged.entry_head = HashOfAll(*complete_);  // Nothing is kept of what is complete.
    }
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<StagedRun> all, ShareStaged(ranks_, staged));
  const StagedRun& mine = all[static_cast<std::size_t>(leader())];
  where_ = mine.where;
  entry_head_ = mine.entry_head;
  was_complete_ = where_.folder.empty();
  std::string made_of;  // A hash of the data of the complete parts, which must agree.
  for (int part = 0; parts_ && part < parts_->count; ++part) {
    const StagedRun& of_part = all[static_cast<std::size_t>(parts_->LeaderOf(part))];
    parts_->is_done.push_back(of_part.where.folder.empty());
    was_complete_ = was_complete_ && parts_->is_done.back();
    if (!parts_->is_done.back()) continue;
    if (made_of.empty()) made_of = of_part.entry_head;
    if (of_part.entry_head == made_of) continue;
    return Fail(ErrorCode::kBadData,
                "the parts of `{}` that are complete were made of different data, so the source was changed between "
                "them; convert all of it again with {}",
                options_.destination, OptionName(UserOption::kForce));
  }
  return llvm::Error::success();
}

llvm::Expected<ExecutionReport> RunDestination::Fill(ExecutionOptions& execution) {
  std::optional<RankPart> share;  // Held until the last byte is written.
  auto fill = [&]() -> llvm::Expected<ExecutionReport> {
    llvm::Error error = llvm::Error::success();
    if (!is_leader() && !is_done()) {
      llvm::Expected<RankPart> taken = RankPart::Take(files_, where_, ranks_.rank());
      if (taken) share.emplace(std::move(*taken));
      error = taken.takeError();
    }
    UCP_RETURN_IF_ERROR(Agree(ranks_, std::move(error)));
    if (!options_.keeps_unfinished) {
      execution.keep = nullptr;
    } else if (Commits()) {
      execution.keep = [this](const std::string& progress) { return staging_->Keep(entry_head_ + progress); };
    } else if (share) {
      execution.keep = [this, &share](const std::string& progress) { return share->Keep(entry_head_ + progress); };
    }
    if (!parts_) return Execute(plan_, run_.source_folder, where_.folder, files_, execution);
    return ExecuteParts(plan_, run_.source_folder, is_done() ? options_.destination : where_.folder, files_, execution,
                        *parts_);
  };
  llvm::Expected<ExecutionReport> report = fill();
  share.reset();
  if (llvm::Error error = ranks_.AllGather("").takeError()) {  // Nobody has a share any more.
    llvm::consumeError(report.takeError());
    return error;
  }
  return report;
}

bool RunDestination::is_complete() const { return was_complete_; }

BytesToDo RunDestination::Left(const ExecutionOptions& execution) const {
  std::vector<bool> is_mine;
  for (std::size_t file = 0; parts_ && file < plan_.target.files.size(); ++file) {
    is_mine.push_back(parts_->Has(part(), FileId(file)));
  }
  return BytesLeft(plan_, is_mine.empty() ? TargetShare() : TargetShare(std::move(is_mine)), execution.progress_before);
}

// Rank 0's, or that of the first part that was complete before; then what was written now must fit it.
llvm::Expected<Manifest> RunDestination::ManifestOfAll(ExecutionReport& report) {
  const bool is_first = ranks_.rank() == 0;
  if (!parts_) return is_first ? MakeManifest(plan_, identity_.plan, report) : Manifest();
  std::string mine;
  if (complete_) {
    mine = ComposeManifest(*complete_);
  } else if (is_first) {
    mine = ComposeManifest(MakeManifest(plan_, identity_.plan, report, &*parts_));
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(mine));
  std::size_t from = 0;
  for (int part = 0; part < parts_->count; ++part) {
    if (!parts_->IsDone(part)) continue;
    from = static_cast<std::size_t>(parts_->LeaderOf(part));
    break;
  }
  llvm::Expected<Manifest> manifest = ParseManifest(all[from]);
  UCP_RETURN_IF_ERROR(Agree(ranks_, manifest ? llvm::Error::success() : manifest.takeError()));
  UCP_RETURN_IF_ERROR(
      OutcomeOfFirstRank(ranks_, is_first ? CheckAgrees(*manifest, plan_, report) : llvm::Error::success()));
  return manifest;
}

llvm::Error RunDestination::WriteManifest(Manifest manifest) {
  if (parts_) manifest.part.number = part() + 1;
  const std::string text = ComposeManifest(manifest);
  const std::string path = JoinPath(staging_->folder(), kManifestName);
  UCP_RETURN_IF_ERROR(files_.RemoveTree(path));  // An earlier run may have come as far as this.
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.CreateForWriting(path, text.size()));
  UCP_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(text))));
  return file->Close();
}

llvm::Error RunDestination::Commit(ExecutionReport& report, const ExecutionOptions& execution, PhaseClock& clock) {
  const bool is_first = ranks_.rank() == 0;
  UCP_RETURN_IF_ERROR(
      OutcomeOfFirstRank(ranks_, is_first ? CheckMastersBelong(report, plan_) : llvm::Error::success()));
  UCP_ASSIGN_OR_RETURN(Manifest manifest, ManifestOfAll(report));
  clock.Begin("commit");
  auto make_durable = [&]() -> llvm::Error {
    UCP_RETURN_IF_ERROR(WriteManifest(std::move(manifest)));
    return staging_->MakeDurable({execution.threads, execution.cancelled});
  };
  UCP_RETURN_IF_ERROR(Settle(Commits() ? make_durable() : llvm::Error::success()));
  UCP_RETURN_IF_ERROR(AppearTogether());
  appeared_();
  return Settle(Commits() ? staging_->Finish() : llvm::Error::success());
}

// P3. A rank that cannot go back says so.
llvm::Error RunDestination::AppearTogether() {
  llvm::Error mine = Commits() ? staging_->Appear() : llvm::Error::success();
  const bool has_appeared = Commits() && staging_->has_appeared();
  llvm::Error error = Settle(std::move(mine));
  have_appeared_ = !error;
  if (!error) return error;
  const std::string stays = has_appeared && !staging_->Vanish() ? PartText(parts_, part()) : "";
  FailureText failure = TakeFailure(std::move(error));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(stays));
  for (const std::string& part : all) {
    if (!part.empty())
      failure.message +=
          fmt::format("; and {} could not be taken back, so `{}` is incomplete", part, options_.destination);
  }
  return MakeError(failure.code, failure.message);
}

llvm::Error RunDestination::Conclude(llvm::Error error) {
  FailureText failure = TakeFailure(std::move(error));
  if (failure.code == ErrorCode::kCancelled) failure.message = "interrupted";
  const bool keeps = Commits() && staging_->is_kept() && failure.code != ErrorCode::kBadData;
  std::string mine = keeps ? "kept" : "";
  if (Commits() && !keeps) {
    if (llvm::Error left_behind = staging_->Abandon()) mine = "; and " + TakeFailure(std::move(left_behind)).message;
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(mine));
  bool is_kept = false;
  for (const std::string& outcome : all) {
    if (outcome == "kept") {
      is_kept = true;
    } else {
      failure.message += outcome;
    }
  }
  // A refusal says what to do.
  const bool is_refused =
      failure.code != ErrorCode::kCancelled && failure.code != ErrorCode::kIo && failure.code != ErrorCode::kMemory;
  if (is_kept && !is_refused) {
    const std::string where =
        parts_ ? fmt::format("beside `{}` on its nodes", options_.destination) : fmt::format("in `{}`", where_.folder);
    failure.message += fmt::format(
        "; what is done is kept {}: {} continues from it, and without that option removes it", where, GoOn());
  } else if (parts_ && !have_appeared_ && !is_refused && std::ranges::count(parts_->is_done, true) > 0) {
    failure.message +=
        fmt::format("; some parts of `{}` are there, and others not: {} finishes it", options_.destination, GoOn());
  }
  return MakeError(failure.code, failure.message);
}

}  // namespace ucp
