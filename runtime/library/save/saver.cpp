#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/library/call.h"
#include "runtime/library/given_ranks.h"
#include "runtime/library/save/state_to_hold.h"
#include "runtime/library/save/writer_program.h"
#include "runtime/save/save_client.h"
#include "ucp/save.h"

namespace ucp {
namespace {

constexpr double kSecondsOfOneWait = 3600;
constexpr double kMostSeconds = 1e6;
constexpr int kMostNice = 19;

llvm::Expected<SaverSettings> SettingsOf(const std::string& to, const SaveSettings& settings, bool is_at_once) {
  SaverSettings of_saver;
  of_saver.request = {TextsOf(settings.source), to, {"", settings.keep_opaque, settings.ds_config}};
  of_saver.request.source.path = "memory";
  UCP_ASSIGN_OR_RETURN(of_saver.threads, ThreadsOf(settings.threads));
  of_saver.memory_bytes = settings.memory_bytes;
  of_saver.rooms = is_at_once ? 1 : static_cast<std::uint64_t>(settings.staging);
  of_saver.staging_bytes = settings.staging_bytes;
  of_saver.keep = settings.keep;
  of_saver.timeout_seconds = settings.timeout_seconds;
  of_saver.nice = settings.nice;
  of_saver.reads_memory = is_at_once;
  of_saver.verifies_replicas = settings.verify_replicas;
  of_saver.node_local = settings.node_local;
  of_saver.finishes_orphans = settings.finish_on_death;
  if (!(settings.timeout_seconds > 0 && settings.timeout_seconds <= kMostSeconds)) {
    return Fail(ErrorCode::kUsage, "timeout_seconds is above 0 and at most {}, not {}", kMostSeconds,
                settings.timeout_seconds);
  }
  if (settings.staging < 1 || settings.staging > static_cast<int>(kMostRooms)) {
    return Fail(ErrorCode::kUsage, "staging is a number from 1 to {}, not {}", kMostRooms, settings.staging);
  }
  if (settings.staging > 1 && settings.staging_bytes > 0) {
    return Fail(ErrorCode::kUsage, "staging is 1 where staging_bytes bounds it, not {}", settings.staging);
  }
  if (settings.nice < 0 || settings.nice > kMostNice) {
    return Fail(ErrorCode::kUsage, "nice is a number from 0 to {}, not {}", kMostNice, settings.nice);
  }
  if (settings.node_local && to.substr(0, to.find(':')) != "dcp") {
    return Fail(ErrorCode::kUsage,
                "node_local is for the target `dcp`, whose files each machine can have of its own, and not for `{}`",
                to);
  }
  if (!settings.source.path.empty()) {
    return Fail(ErrorCode::kUsage, "a save's source is the job, and not `{}`", settings.source.path);
  }
  return of_saver;
}

}  // namespace

inline namespace v0 {

class SavePoint::Progress {
 public:
  Progress(std::shared_ptr<SaveClient> client, std::uint64_t number) : client_(std::move(client)), number_(number) {}

  // Whether it has come so far within these seconds.
  llvm::Expected<bool> Reach(int step, double seconds) {
    return client_->WaitFor(number_, static_cast<SaveStep>(step), seconds);
  }
  bool HasReachedOrFailed(int step, double seconds) {
    llvm::Expected<bool> reached = Reach(step, seconds);
    if (reached) return *reached;
    llvm::consumeError(reached.takeError());
    return true;
  }
  bool IsStaged() {
    llvm::Expected<bool> reached = Reach(static_cast<int>(SaveStep::kStaged), 0);
    if (reached) return *reached;
    llvm::consumeError(reached.takeError());
    return false;
  }
  // As Reach(), and the caller has seen the error.
  bool See(int step, double seconds) {
    llvm::Expected<bool> reached = Reach(step, seconds);
    if (!reached) is_seen_ = true;
    return Take(std::move(reached));
  }
  bool is_seen() const { return is_seen_; }
  std::string Report() const { return client_->ReportOf(number_); }

 private:
  std::shared_ptr<SaveClient> client_;
  std::uint64_t number_;
  std::atomic<bool> is_seen_ = false;  // Its error was thrown.
};

SavePoint::SavePoint(std::shared_ptr<Progress> progress, int step) : progress_(std::move(progress)), step_(step) {}

bool SavePoint::is_done() const { return progress_->HasReachedOrFailed(step_, 0); }

void SavePoint::Wait() const {
  while (!WaitFor(kSecondsOfOneWait)) continue;
}

bool SavePoint::WaitFor(double seconds) const {
  return progress_->See(step_, std::clamp(seconds, 0.0, kSecondsOfOneWait));
}

std::string Saving::ReportAsJson() const {
  durable.Wait();
  return durable.progress_->Report();
}

class Saver::State {
 public:
  using Progress = SavePoint::Progress;

  State(const StateToSave& state, const std::string& to, const SaveSettings& settings, bool is_at_once) {
    GivenRanks ranks(settings.ranks);
    llvm::Expected<SaverSettings> of_saver = SettingsOf(to, settings, is_at_once);
    ThrowIf(Agree(ranks, of_saver ? llvm::Error::success() : of_saver.takeError()));
    llvm::Expected<GivenState> given = StateToHold(state);
    ThrowIf(Agree(ranks, given ? llvm::Error::success() : given.takeError()));
    llvm::Expected<std::string> program = WriterProgram(settings.program);
    ThrowIf(Agree(ranks, program ? llvm::Error::success() : program.takeError()));
    held_ = given->held;
    is_bounded_ = of_saver->staging_bytes > 0;
    JoinMessage join;
    join.settings = *of_saver;
    join.state = std::move(given->held);
    join.values = std::move(given->values);
    client_ = Take(SaveClient::Open(ranks, *program, std::move(join), std::move(given->memories), of_saver->threads));
  }
  ~State() { client_->CloseAndWait(); }

  std::string plan() const { return client_->layout().plan; }

  std::shared_ptr<Progress> Begin(const std::string& path, const StateToSave& state, const SaveChoice& choice) {
    SaveCall call;
    std::vector<std::shared_ptr<const void>> owners;
    const bool has_state = Fill(call, path, state, choice, owners);
    auto progress = std::make_shared<Progress>(client_, client_->Begin(std::move(call)));
    going_on_.push_back({progress, std::move(owners)});
    if (has_state) new_state_ = progress;
    if (is_bounded_ && (new_state_ || client_->layout().waves.count > 1)) WaitForWaves();
    return progress;
  }

  // The first error that nobody has seen of a save that has ended.
  std::optional<FailureText> TakeUnseen() {
    std::optional<FailureText> first;
    std::erase_if(going_on_, [&](const GoingOn& save) {
      if (!save.progress->HasReachedOrFailed(kDone, 0)) return false;
      if (save.progress->is_seen()) return true;
      llvm::Error error = save.progress->Reach(kDone, 0).takeError();
      if (first || !error) {
        llvm::consumeError(std::move(error));
      } else {
        first = TakeFailure(std::move(error));
      }
      return true;
    });
    return first;
  }

  void WaitForStaging() const {
    if (!going_on_.empty()) WaitForLast(kStaged);
  }

  void Close() {
    is_closed_ = true;
    client_->CloseAndWait();
    ThrowUnseen(TakeUnseen());
  }

  static void ThrowUnseen(const std::optional<FailureText>& failure) {
    if (failure) ThrowIf(Fail(failure->code, "{}", failure->message));
  }
  bool is_closed() const { return is_closed_; }

  static constexpr int kStaging = static_cast<int>(SaveStep::kStaging);
  static constexpr int kStaged = static_cast<int>(SaveStep::kStaged);
  static constexpr int kDone = static_cast<int>(SaveStep::kDone);

 private:
  struct GoingOn {
    std::shared_ptr<Progress> progress;
    std::vector<std::shared_ptr<const void>> owners;
  };

  void WaitForLast(int step) const {
    while (!going_on_.back().progress->HasReachedOrFailed(step, kSecondsOfOneWait)) continue;
  }

  // If there are several, until the last one is staged.
  void WaitForWaves() const {
    WaitForLast(kStaging);  // The state may have been laid out anew.
    if (client_->layout().waves.count > 1) WaitForLast(kStaged);
  }

  // Whether it has new entries. All ranks hear of a problem.
  bool Fill(SaveCall& call, const std::string& path, const StateToSave& state, const SaveChoice& choice,
            std::vector<std::shared_ptr<const void>>& owners) {
    std::error_code unknown;
    call.path = std::filesystem::absolute(path, unknown).lexically_normal().string();
    if (call.path.size() > 1 && call.path.ends_with('/')) call.path.pop_back();
    call.tag = choice.tag.value_or(std::filesystem::path(call.path).filename().string());
    call.force = choice.force;
    llvm::Expected<GivenState> given = StateToHold(state);
    if (path.empty()) call.problem = "the path to save to is empty";
    if (!given) {
      call.problem = TakeFailure(given.takeError()).message;
      return false;
    }
    owners = std::move(given->owners);
    call.values = std::move(given->values);
    call.memories = std::move(given->memories);
    if (new_state_ && new_state_->IsStaged()) new_state_.reset();
    // After a save that may have failed nobody knows which entries the writer has.
    if (new_state_ == nullptr && given->held == held_) return false;
    held_ = given->held;
    call.state = std::move(given->held);
    return true;
  }

  std::shared_ptr<SaveClient> client_;
  HeldState held_;                       // Of the last save.
  std::shared_ptr<Progress> new_state_;  // The last save that had other entries, until all have staged it.
  std::vector<GoingOn> going_on_;
  bool is_bounded_ = false;  // A save may be staged in waves.
  bool is_closed_ = false;
};

Saver::Saver(const StateToSave& state, const std::string& to, const SaveSettings& settings)
    : Saver(std::make_unique<State>(state, to, settings, /*is_at_once=*/false)) {}
Saver::Saver(std::unique_ptr<State> state) : state_(std::move(state)) {}
Saver::Saver(Saver&&) noexcept = default;
Saver& Saver::operator=(Saver&&) noexcept = default;
Saver::~Saver() = default;

std::string Saver::PlanAsJson() const { return state_->plan(); }

Saving Saver::Save(const std::string& path, const StateToSave& state, const SaveChoice& choice) {
  if (state_->is_closed()) throw Error(ErrorKind::kUsage, "the saver is closed");
  const std::optional<FailureText> unseen = state_->TakeUnseen();  // Of earlier saves.
  const std::shared_ptr<SavePoint::Progress> progress = state_->Begin(path, state, choice);
  Saving saving{SavePoint(progress, State::kStaged), SavePoint(progress, State::kDone)};
  State::ThrowUnseen(unseen);
  return saving;
}

void Saver::WaitForStaging() const { state_->WaitForStaging(); }
void Saver::Close() { state_->Close(); }

std::string Save(const StateToSave& state, const std::string& path, const std::string& to, const SaveSettings& settings,
                 const SaveChoice& choice) {
  Saver saver(std::make_unique<Saver::State>(state, to, settings, /*is_at_once=*/true));
  return saver.Save(path, state, choice).ReportAsJson();
}

}  // namespace v0
}  // namespace ucp
